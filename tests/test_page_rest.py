"""Settings, keys, traces, analytics, signing in; and what a hostile name, heading or answer can do: nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

import page_samples
from browser import ask, tab
from http_server import Server, serving
from library_samples import open_desk
from refdesk import Refdesk, UsageError
from wire_server import Reply, WireServer

server, page = page_samples.server, page_samples.page


def test_a_setting_is_changed_and_put_back(page: Page, server: Server) -> None:
    page.get_by_role("link", name="Settings").click()
    expect(page.get_by_text("Every setting is at its default.")).to_be_visible()
    listed = {one["name"] for one in server.get("/api/settings").json()["settings"]}
    assert set(page.eval_on_selector_all(".setting", "all => all.map(one => one.dataset.name)")) == listed
    row = page.locator(".setting[data-name='rag.top_k']")
    row.get_by_role("textbox").fill("7")
    row.get_by_role("textbox").press("Enter")
    expect(row.get_by_text("Changed")).to_be_visible()
    assert _setting(server, "rag.top_k") == 7
    row.get_by_role("button", name="Reset to default").click()
    expect(row.get_by_text("Changed")).to_have_count(0)
    assert _setting(server, "rag.top_k") == 10
    page.get_by_label("Find a setting").fill("cosine")
    expect(page.locator(".setting[data-name='rag.top_k']")).to_be_hidden()


def test_answers_without_documents_are_offered_once_there_is_a_model(browser: Browser, server: Server) -> None:
    with tab(browser, server.url, allowed=("400",)) as page:
        _name_a_model(page, server)


def _name_a_model(page: Page, server: Server) -> None:
    choices = page.get_by_label("Mode", exact=True).locator("option")
    expect(choices).to_have_text(["Mode", "Agent", "Report"])
    page.get_by_role("link", name="Settings").click()
    row = page.locator(".setting[data-name='llm.answer']")
    row.get_by_role("textbox").fill("vllm:llama3")
    row.get_by_role("textbox").press("Enter")
    expect(row.get_by_role("alert")).to_contain_text("could not be reached")  # told at saving, and not saved
    row.get_by_role("button", name="Save anyway").click()
    expect(row.get_by_text("Changed")).to_be_visible()
    page.get_by_role("link", name="Ask").click()
    expect(choices.last).to_have_text("Without documents")
    assert server.request("DELETE", "/api/settings/llm.answer").status_code == 200


def test_a_wrong_value_is_explained(browser: Browser, server: Server) -> None:
    with tab(browser, f"{server.url}/#/settings", allowed=("400",)) as page:
        row = page.locator(".setting[data-name='rag.top_k']")
        row.get_by_role("textbox").fill("lots")
        row.get_by_role("textbox").press("Enter")
        expect(row.get_by_role("alert")).to_contain_text("rag.top_k must be a whole number")


def test_a_setting_that_was_not_saved_is_saved_by_another_try(browser: Browser, server: Server) -> None:
    with tab(browser, f"{server.url}/#/settings", allowed=("ERR_FAILED",)) as page:
        row = page.locator(".setting[data-name='rag.top_k']")
        expect(row).to_be_visible()
        page.route("**/api/settings", lambda route: route.abort())
        row.get_by_role("textbox").fill("8")
        row.get_by_role("textbox").press("Enter")
        expect(row.get_by_role("alert")).to_contain_text("The service cannot be reached")
        page.unroute_all()
        row.get_by_role("button", name="Try again").click()
        expect(row.get_by_text("Changed")).to_be_visible()
        row.get_by_role("button", name="Reset to default").click()
        expect(row.get_by_text("Changed")).to_have_count(0)
        page.get_by_label("Find a setting").fill("no such word")
        expect(page.get_by_text("No setting matches.")).to_be_visible()


def test_a_period_while_the_service_is_away(browser: Browser, server: Server) -> None:
    with tab(browser, f"{server.url}/#/analytics", allowed=("ERR_FAILED",)) as page:
        expect(page.get_by_label("Period")).to_be_visible()
        page.route("**/api/analytics*", lambda route: route.abort())
        page.get_by_label("Period").select_option("A year")
        expect(page.locator(".toast")).to_contain_text("The service cannot be reached")


def test_a_model_is_tested(browser: Browser, tmp_path: Path) -> None:
    """One word from the model that stands in the box, or why there is none; said beside the button."""
    with WireServer() as model, pytest.MonkeyPatch.context() as patch, Refdesk(tmp_path / "library") as desk:
        for name, value in model.openai_env().items():
            if name != "REFDESK_LLM":
                patch.setenv(name, value)
        with serving(desk) as server, tab(browser, f"{server.url}/#/settings", allowed=("400", "502")) as page:
            row = page.locator(".setting[data-name='llm.answer']")
            row.get_by_role("button", name="Test").click()
            expect(row.get_by_role("status")).to_contain_text("Enter a model first")
            row.get_by_role("textbox").fill("openai:test-model")
            row.get_by_role("textbox").press("Enter")
            expect(row.get_by_text("Changed")).to_be_visible()
            model.answer_by(lambda request: "The anchor weighs 350 kg. [1]")
            row.get_by_role("button", name="Test").click()
            expect(row.get_by_role("status")).to_have_text(re.compile(r"It answered in .+ m?s\."))
            model.answer_by(lambda request: Reply(status=401, message="wrong key"))
            row.get_by_role("button", name="Test").click()
            expect(row.locator(".bad[role=status]")).to_be_visible()
            expect(row.get_by_role("button", name="Test")).to_be_focused()


def test_presets_and_sections_are_marked(page: Page) -> None:
    page.get_by_role("link", name="Settings").click()
    expect(page.get_by_role("button", name="Balanced")).to_have_attribute("aria-pressed", "true")
    row = page.locator(".setting[data-name='rag.top_k']")
    row.get_by_role("textbox").fill("7")
    row.get_by_role("textbox").press("Enter")
    expect(page.get_by_role("button", name="Balanced")).to_have_attribute("aria-pressed", "false")
    expect(page.get_by_text("settings is changed")).to_be_visible()
    row.get_by_role("button", name="Reset to default").click()
    expect(page.get_by_role("button", name="Balanced")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("navigation", name="Sections").get_by_role("button", name="Keys").click()
    expect(page.get_by_role("heading", name="Keys")).to_be_in_viewport()


def test_a_preset(page: Page, server: Server) -> None:
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("button", name="Speed").click()
    expect(page.get_by_text("settings are changed")).to_be_visible()
    assert _setting(server, "answer.level") == "basic"
    page.get_by_role("button", name="Balanced").click()
    expect(page.get_by_text("Every setting is at its default.")).to_be_visible()


def _setting(server: Server, name: str) -> object:
    return next(one["value"] for one in server.get("/api/settings").json()["settings"] if one["name"] == name)


def test_traces_and_analytics(page: Page) -> None:
    ask(page, "How heavy is the anchor of the standard wave buoy mooring?")
    page.get_by_role("link", name="How this was answered").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("How heavy is the anchor")
    expect(page.locator(".fall summary", has_text="attest")).to_be_visible()
    stages = page.locator(".fall .name").all_inner_texts()
    assert {"understand", "retrieve", "generate", "attest"} <= set(stages)
    page.locator(".fall summary", has_text="retrieve").click()
    expect(page.locator(".fall details[open] pre").first).to_be_visible()
    bars = page.locator(".fall summary i").evaluate_all("all => all.map(bar => bar.offsetWidth)")
    assert max(bars) > 2 <= min(bars)  # as long as the stages took, and never too thin to be seen
    cited = page.locator("tr", has=page.get_by_role("cell", name="cited", exact=True))
    expect(cited.first).to_contain_text("wb7-mooring-sheet.pdf page")
    cited.first.get_by_role("link").click()
    expect(page.locator("#viewer")).to_contain_text("wb7-mooring-sheet.pdf")
    page.get_by_role("link", name="Analytics").click()
    expect(page.locator(".figure").first).to_contain_text("questions")
    expect(page.get_by_role("img", name="questions in 30 days")).to_be_visible()


@pytest.mark.parametrize(("view", "path"), [("Traces", "**/api/answers?*"), ("Analytics", "**/api/analytics?*")])
def test_a_view_that_arrives_late_does_not_draw_over_another(page: Page, view: str, path: str) -> None:
    waiting: list[Route] = []
    page.route(path, lambda route: waiting.append(route))
    with page.expect_request(path):
        page.get_by_role("link", name=view).click()
    page.get_by_role("link", name="Documents").click()
    expect(page.get_by_label("Search by name")).to_be_visible()
    with page.expect_response(path) as response:
        waiting[0].continue_()
    response.value.finished()
    page.evaluate("() => new Promise((done) => setTimeout(done, 50))")  # time to draw
    expect(page.get_by_role("heading", name="Documents")).to_be_visible()
    expect(page.get_by_role("heading", name=view)).to_have_count(0)


def test_a_question_that_failed_is_seen_in_traces_and_analytics(browser: Browser, tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:
        with pytest.raises(UsageError):
            desk.ask_sync("What makes the tides?", mode="general")  # needs a model
        with serving(desk) as server, tab(browser, f"{server.url}/#/traces") as page:
            expect(page.get_by_text("failed", exact=True)).to_be_visible()
            page.get_by_role("link", name="What makes the tides?").click()
            expect(page.get_by_role("heading", level=1)).to_have_text("What makes the tides?")
            expect(page.locator(".notice.bad")).to_contain_text("model")
            assert not {"null", "undefined"} & set(page.locator("main").inner_text().split())
            page.get_by_role("link", name="Analytics").click()
            expect(page.locator(".figure", has_text="failed")).to_contain_text("1")


# signing in


def test_signing_in_as_a_reader(browser: Browser, own_folder: Path) -> None:
    with Refdesk(own_folder) as desk:
        desk.add_text("secret.md", "# Secret\n\nThe vault opens at noon.", collection="vault", format="markdown")
        _, secret = desk.keys.add("Rita", "reader", ["default"])
        with serving(desk) as server, tab(browser, server.url, allowed=("401",)) as page:
            page.wait_for_url("**/sign-in")
            page.get_by_label("Key").fill("rd_nobody")
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("alert")).to_contain_text("unknown")
            page.get_by_label("Key").fill(secret)
            page.get_by_role("button", name="Sign in").click()
            expect(page.locator("#who")).to_have_text("Rita · reader")
            expect(page.get_by_role("link", name="Settings")).to_be_hidden()
            cookie = next(one for one in page.context.cookies() if "session" in one["name"])
            assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
            ask(page, "When does the vault open?")
            assert "noon" not in page.locator(".turn").inner_text()
            page.get_by_role("link", name="Documents").click()
            expect(page.locator(".doc").first).to_be_visible()
            assert page.locator(".drop").count() == 0
            assert not page.locator("#main").get_by_role("button", name="Delete").count()
            assert "vault" not in page.locator("#main").inner_text()
            page.get_by_role("button", name="Sign out").click()
            page.wait_for_url("**/sign-in")
            page.goto(server.url)
            page.wait_for_url("**/sign-in")


def test_a_key_is_made_changed_and_revoked(browser: Browser, tmp_path: Path) -> None:
    with Refdesk(tmp_path / "library") as desk:
        _, secret = desk.keys.add("Ada", "admin")
        with serving(desk) as server, tab(browser, server.url, allowed=("400", "401")) as page:
            page.context.grant_permissions(["clipboard-read", "clipboard-write"])
            page.get_by_label("Key").fill(secret)
            page.get_by_role("button", name="Sign in").click()
            page.get_by_role("link", name="Settings").click()
            page.get_by_role("button", name="New key").press("Enter")
            page.get_by_role("dialog").get_by_label("Name").fill("Rita")
            page.get_by_role("dialog").get_by_label("Collections").fill("finance//2024")
            page.keyboard.press("Enter")
            expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("finance//2024")
            expect(page.get_by_role("dialog").get_by_label("Name")).to_have_value("Rita")  # nothing is typed twice
            page.get_by_role("dialog").get_by_label("Collections").fill("")
            page.keyboard.press("Enter")
            made = page.locator(".secret").inner_text()
            assert server.get("/api/me", key=made).json()["name"] == "Rita"
            for key in ("Enter", "Escape"):  # shown once: not lost by a key that was pressed twice
                page.keyboard.press(key)
                expect(page.locator(".secret")).to_be_visible()
            assert page.evaluate("navigator.clipboard.readText()") == made
            page.get_by_role("button", name="Done").click()
            expect(page.get_by_role("button", name="New key")).to_be_focused()
            page.get_by_role("button", name="Change Rita").click()
            page.get_by_role("dialog").get_by_label("Role").select_option("editor")
            page.get_by_role("dialog").get_by_label("Collections").fill("finance, hr/2024")
            page.get_by_role("button", name="Change", exact=True).click()
            expect(page.get_by_role("row", name="Rita")).to_contain_text("editorfinance, hr/2024")
            me = server.get("/api/me", key=made).json()
            assert (me["name"], me["role"], me["collections"]) == ("Rita", "editor", ["finance", "hr/2024"])
            page.get_by_role("button", name="Revoke Rita").click()
            page.get_by_role("button", name="Revoke", exact=True).click()
            expect(page.get_by_role("button", name="Revoke Rita")).to_have_count(0)
            expect(page.get_by_role("button", name="New key")).to_be_focused()
            assert server.get("/api/me", key=made).status_code == 401


# what others wrote

ATTACK = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"


def test_hostile_texts_do_nothing(browser: Browser, tmp_path: Path) -> None:
    """A file name, a heading, a table cell, an answer, a question: all of it is shown, none of it runs."""
    name = f"{ATTACK}.md".replace("/", "∕")
    table = f"| part | load |\n|---|---|\n| hook {ATTACK} | 40 |\n"
    text = f"# Crane {ATTACK}\n\nThe crane lifts 40 tonnes {ATTACK}.\n\n{table}"
    with WireServer() as model, pytest.MonkeyPatch.context() as patch:
        for variable, value in model.openai_env().items():
            patch.setenv(variable, value)
        answer = (
            f"The crane lifts 40 tonnes. [1] {ATTACK} [press](javascript:window.hacked=1)\n\n| a |\n|---|\n| {ATTACK} |"
        )
        model.answer_by(lambda request: answer)
        with Refdesk(tmp_path / "library") as desk:
            desk.add_text(name, text, format="markdown")
            with serving(desk) as server, tab(browser, server.url) as page:
                ask(page, f"How much does the crane lift {ATTACK}?")
                expect(page.locator(".answer")).to_contain_text("onerror")
                page.locator(".answer .chip").first.hover()
                expect(page.get_by_role("tooltip")).to_contain_text("onerror")
                page.locator(".answer .chip").first.click()
                expect(page.locator(".leaf.text")).to_contain_text("onerror")
                for view in ("Documents", "Traces", "Analytics"):
                    page.get_by_role("link", name=view, exact=True).click()
                    expect(page.get_by_role("heading", level=1, name=view)).to_be_visible()
                page.get_by_role("link", name="Documents", exact=True).click()
                expect(page.locator(".doc-name")).to_contain_text("onerror")
                page.locator(".doc-name").click()
                expect(page.locator(".leaf.text")).to_contain_text("onerror")
                assert page.evaluate("window.hacked") is None
                assert page.locator("script:not([src]), a[href^='javascript']").count() == 0


def test_the_policy_holds(browser: Browser, server: Server) -> None:
    """Were something to get through, the browser would still refuse to run it."""
    with tab(browser, server.url, allowed=("Content Security Policy",)) as page:
        refused = page.evaluate(INJECT)
        assert refused == "script-src-elem" and page.evaluate("window.hacked") is None


INJECT = """() => new Promise(resolve => {
        document.addEventListener("securitypolicyviolation", event => resolve(event.effectiveDirective));
        const script = document.createElement("script");
        script.textContent = "window.hacked = 1";
        document.body.append(script);
        setTimeout(() => resolve("nothing was refused"), 2000);
    })"""
