// Runs the receiver of `redial verify --roads` on requests that it must not believe, and prints its statuses as JSON by their names.
// Argument: the receiver's code.
const crypto = require("node:crypto");
const origin = "r.example";
const stack = crypto.generateKeyPairSync("ec", { namedCurve: "P-256" });
const other = crypto.generateKeyPairSync("ec", { namedCurve: "P-256" });
const point = ({ publicKey }) => {
  const { x, y } = publicKey.export({ format: "jwk" });
  return Buffer.concat([Buffer.of(4), ...[x, y].map((it) => Buffer.from(it, "base64url"))]).toString("base64url");
};
const secret = crypto.randomBytes(24);
const browser = crypto.createECDH("prime256v1");
browser.generateKeys();
const auth = crypto.randomBytes(16);
Object.assign(process.env, {
  SECRET: `whsec_${secret.toString("base64")}`,
  PUSH_KEY: browser.getPrivateKey().toString("base64url"),
  PUSH_AUTH: auth.toString("base64url"),
  VAPID_KEYS: point(stack),
  AUDIENCE: "",
});
const receiver = { exports: {} };
new Function("require", "exports", process.argv.at(-1))(require, receiver.exports);
console.error = () => {};

const now = Math.trunc(Date.now() / 1000);
const text = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
const token = (keys, aud, exp) => {
  const signed = `${text({ typ: "JWT", alg: "ES256" })}.${text({ aud, exp, sub: "mailto:a@b.example" })}`;
  const signature = crypto.sign("sha256", signed, { key: keys.privateKey, dsaEncoding: "ieee-p1363" });
  return `vapid t=${signed}.${signature.toString("base64url")}, k=${point(keys)}`;
};
// RFC 8291 from the sender's side.
const sealed = (payload) => {
  const sender = crypto.createECDH("prime256v1");
  sender.generateKeys();
  const hkdf = (key, salt, info, length) => Buffer.from(crypto.hkdfSync("sha256", key, salt, info, length));
  const info = Buffer.concat([Buffer.from("WebPush: info\0"), browser.getPublicKey(), sender.getPublicKey()]);
  const key = hkdf(sender.computeSecret(browser.getPublicKey()), auth, info, 32);
  const salt = crypto.randomBytes(16);
  const cipher = crypto.createCipheriv(
    "aes-128-gcm",
    hkdf(key, salt, "Content-Encoding: aes128gcm\0", 16),
    hkdf(key, salt, "Content-Encoding: nonce\0", 12),
  );
  const record = Buffer.concat([cipher.update(`${JSON.stringify(payload)}\u0002\0\0`), cipher.final(), cipher.getAuthTag()]);
  return Buffer.concat([salt, Buffer.of(0, 0, 16, 0, 65), sender.getPublicKey(), record]);
};
const push = (authorization, body, more = { ttl: "60" }) => ({
  headers: { host: origin, "content-encoding": "aes128gcm", authorization, ...more },
  body: body.toString("base64"),
  isBase64Encoded: true,
  rawPath: "/push",
});
const webhook = (body, at, signedBody = body) => {
  const signature = crypto.createHmac("sha256", secret).update(`m.${at}.${signedBody}`).digest("base64");
  const headers = { "webhook-id": "m", "webhook-timestamp": String(at), "webhook-signature": `v1,${signature}` };
  return { headers, body, isBase64Encoded: false, rawPath: "/delivered" };
};
const valid = token(stack, `https://${origin}`, now + 600);
const changed = sealed({ road: "push" });
changed[changed.length - 20] ^= 1;
const requests = {
  "a push": push(valid, sealed({ road: "push" })),
  "a push that is to be refused": {
    ...push(valid, sealed({ road: "push" })),
    queryStringParameters: { status: "503", until: String(now + 60) },
  },
  "a push of another road": push(valid, sealed({ road: "push-gone" })),
  "a changed push": push(valid, changed),
  "an empty push": push(valid, Buffer.alloc(0)),
  "a push without a TTL": push(valid, sealed({ road: "push" }), {}),
  "a push without a token": push(undefined, sealed({ road: "push" })),
  "a push by another key": push(token(other, `https://${origin}`, now + 600), sealed({ road: "push" })),
  "a push for another origin": push(token(stack, "https://other.example", now + 600), sealed({ road: "push" })),
  "a push whose token is over": push(token(stack, `https://${origin}`, now - 1), sealed({ road: "push" })),
  "a push whose token holds for two days": push(token(stack, `https://${origin}`, now + 172800), sealed({ road: "push" })),
  "a webhook": webhook("{}", now),
  "a changed webhook": webhook("{ }", now, "{}"),
  "an old webhook": webhook("{}", now - 600),
  "a webhook without a signature": { headers: {}, body: "{}", rawPath: "/delivered" },
};
(async () => {
  const statuses = {};
  for (const [name, request] of Object.entries(requests)) {
    statuses[name] = (await receiver.exports.handler(request)).statusCode;
  }
  console.log(JSON.stringify(statuses));
})();
