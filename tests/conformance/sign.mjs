// Signs each example delivery of GitHub's as GitHub does: node sign.mjs METHODS EXAMPLES SECRET, a JSON object a line.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [methods, examples, secret] = process.argv.slice(2);
const { sign } = await import(pathToFileURL(methods));
for (const { name, examples: payloads } of JSON.parse(readFileSync(examples, "utf8"))) {
  for (const payload of payloads) {
    const body = JSON.stringify(payload);
    console.log(JSON.stringify({ event: name, body, signature: await sign(secret, body) }));
  }
}
