#!/usr/bin/env node
// Lambda's Node.js runtime, as far as the inline code of a template needs it: takes each event from the Runtime API, and returns what the
// handler makes of it.
const http = require("node:http");
const { handler } = require("./index.js");

const base = `${process.env.AWS_LAMBDA_RUNTIME_API}/2018-06-01/runtime/invocation`;

// Not `fetch`, which gives up on an answer that takes as long as no event comes.
const call = (method, url, body) =>
  new Promise((resolve, reject) => {
    const request = http.request(url, { method }, (response) => {
      const parts = [];
      response.on("data", (part) => parts.push(part));
      response.on("end", () => resolve({ headers: response.headers, body: Buffer.concat(parts).toString() }));
      response.on("error", reject);
    });
    request.on("error", reject);
    request.end(body);
  });

(async () => {
  for (;;) {
    const { headers, body } = await call("GET", `${base}/next`);
    const invocation = `${base}/${headers["lambda-runtime-aws-request-id"]}`;
    try {
      const result = await handler(JSON.parse(body));
      await call("POST", `${invocation}/response`, JSON.stringify(result ?? null));
    } catch (error) {
      const failure = { errorType: error.name, errorMessage: error.message };
      await call("POST", `${invocation}/error`, JSON.stringify(failure));
    }
  }
})().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
