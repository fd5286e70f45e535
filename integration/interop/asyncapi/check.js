// SPDX-License-Identifier: Apache-2.0

// Reads AsyncAPI documents with AsyncAPI's own parser, prints what it finds wrong with each, a line for each finding, and ends with code 1 if there is any.
// That there is a newer version of the specification is no mistake.
import { readFileSync } from "node:fs";
import parser from "@asyncapi/parser";

for (const file of process.argv.slice(2)) {
  const { document, diagnostics } = await new parser.Parser().parse(readFileSync(file, "utf8"));
  const wrong = diagnostics.filter((d) => d.code !== "asyncapi-latest-version");
  for (const d of wrong) {
    console.log(`${file}: ${d.path.join(".")}: ${d.code}: ${d.message}`);
  }
  if (wrong.length > 0 || document === undefined) {
    process.exitCode = 1;
    continue;
  }
  console.log(`${file}: ${document.channels().all().length} channels, ${document.messages().all().length} messages`);
}
