// Collections as folders: "finance/2024" is the folder 2024 inside finance.

/** [{name: "finance/2024", documents: 3}] -> finance (3) and, inside it, finance/2024 (3), in the order of a tree. */
export function foldersOf(collections) {
  const all = new Map();
  for (const { name, documents, may_edit } of collections) {
    const parts = name.split("/");
    parts.forEach((label, depth) => {
      const path = parts.slice(0, depth + 1).join("/");
      const one = all.get(path) || { name: path, label, depth, inside: parts.slice(0, depth).join("/"), documents: 0, mayEdit: true };
      one.documents += documents;
      one.mayEdit &&= may_edit;
      all.set(path, one);
    });
  }
  const order = (one) => one.name.replaceAll("/", "\u0001"); // a folder before its neighbours' longer names
  return [...all.values()].sort((a, b) => (order(a) < order(b) ? -1 : 1));
}

/** Those on the first level, and what is inside the open one and the ones around it. */
export const inSight = (folders, open) => folders.filter((one) => !one.inside || open === one.inside || open.startsWith(`${one.inside}/`));
