// An identity provider for tests: oidc-provider, with its own pages to sign in, on a free port of this machine. It says its issuer in its
// first line, and ends with its standard input. Anybody can sign in, with any password; "alice" is in two groups, "many" in 500.
//
//   node provider.mjs '{ "backchannel": "http://127.0.0.1:PORT/" }'    it tells this address of logouts (SITE in it: the
//                                                                    clients' address)
//   node provider.mjs '{ "inIdToken": true }'                          all claims are in the ID token
//   node provider.mjs '{ "tls": "FOLDER" }'                            https and HTTP/2, with FOLDER/tls.pem and tls.key
//
// What a good provider never does is asked for by POST /test/...: rotate (new keys), forge/KIND (the next ID token is a bad one), away (no
// answers), no-userinfo, and back; no-tokens (every grant has ended); site/ADDRESS (in base64url): its clients are at this address from now on.
// GET /test-count says how often its configuration was asked for, /test-count/tokens how often tokens were.
import { readFileSync } from "node:fs"
import { createServer } from "node:http"
import { createSecureServer } from "node:http2"
import { createHmac, createSign, generateKeyPairSync, randomUUID } from "node:crypto"
import Provider from "oidc-provider"

const options = JSON.parse(process.argv[2] ?? "{}")
let site = "https://shop.example"

const encode = value => Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url")
const decode = part => JSON.parse(Buffer.from(part, "base64url"))

function newKey() {
  const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 })
  const kid = randomUUID()
  return { kid, privateKey, publicKey, jwk: { ...privateKey.export({ format: "jwk" }), kid, use: "sig", alg: "RS256" } }
}

const groups = sub => sub === "many"
  ? Array.from({ length: 500 }, (_, number) => `00000000-0000-0000-0000-${String(number).padStart(12, "0")}`)
  : ["staff", "admins"]

const configuration = key => ({
  clients: [
    client("shop", {}),
    // It gets its claims in the ID token alone, and sends its secret in the body.
    client("wiki", { token_endpoint_auth_method: "client_secret_post" }),
    client("public", { token_endpoint_auth_method: "none", client_secret: undefined }),
  ],
  claims: { openid: ["sub", "sid"], profile: ["preferred_username"], email: ["email", "email_verified"], groups: ["groups"] },
  conformIdTokenClaims: options.inIdToken !== true,
  cookies: { keys: ["for tests only"] },
  features: { backchannelLogout: { enabled: true }, devInteractions: { enabled: true }, rpInitiatedLogout: { enabled: true } },
  // Its own dispatcher asks no address of this machine.
  fetch: (url, { dispatcher, ...init }) => fetch(url, init),
  findAccount: (_, sub) => ({
    accountId: sub,
    claims: () => ({ sub, preferred_username: sub, email: `${sub}@example.com`, email_verified: true, groups: groups(sub) }),
  }),
  issueRefreshToken: async () => true,
  jwks: { keys: [key.jwk] },
  pkce: { required: () => true },
  rotateRefreshToken: true,
  scopes: ["openid", "offline_access", "profile", "email", "groups"],
  ttl: { AccessToken: 300, AuthorizationCode: 60, Grant: 3600, IdToken: 300, Interaction: 600, RefreshToken: 3600, Session: 3600 },
})

function client(id, more) {
  const uri = options.backchannel?.replace("SITE", site)
  const backchannel = uri && { backchannel_logout_uri: uri, backchannel_logout_session_required: true }
  return {
    client_id: id, client_secret: `secret-of-${id}`, redirect_uris: [`${site}/.paceline/sso/callback`],
    post_logout_redirect_uris: [`${site}/`, `${site}/.paceline/sso/signed-out`],
    grant_types: ["authorization_code", "refresh_token"], response_types: ["code"], ...backchannel, ...more,
  }
}

let key, handle, forgery, away = false, noInfo = false, noTokens = false, discoveries = 0, tokens = 0

function open(issuer, ofKey = newKey()) {
  key = ofKey
  const provider = new Provider(issuer, configuration(key))
  // The memory that codes and sessions are in is shared by all of them.
  provider.use(async (context, next) => {
    await next()
    if (forgery && context.path === "/token" && context.body?.id_token) {
      context.body.id_token = forged(context.body.id_token, forgery)
      forgery = undefined
    }
  })
  handle = provider.callback()
}

// What an attacker, or a provider that is broken, would say.
function forged(token, kind) {
  let [header, claims, signature] = token.split(".")
  const good = decode(claims)
  const now = Math.floor(Date.now() / 1000)
  const signed = (more, head = {}, by = key) => {
    const text = `${encode({ ...decode(header), ...head })}.${encode({ ...good, ...more })}`
    return `${text}.${createSign("RSA-SHA256").update(text).sign(by.privateKey, "base64url")}`
  }
  switch (kind) {
    case "signature": return signed({}, {}, newKey())
    case "changed": return `${header}.${encode({ ...good, sub: "mallory" })}.${signature}`
    case "audience": return signed({ aud: "another-client" })
    case "audiences": return signed({ aud: [good.aud, "another-client"], azp: "another-client" })
    case "trusted-audiences": return signed({ aud: [good.aud, "another-client"], azp: good.aud })
    case "issuer": return signed({ iss: "https://evil.example" })
    case "expired": return signed({ iat: now - 7200, exp: now - 3600 })
    case "future": return signed({ iat: now + 3600, exp: now + 7200 })
    case "not-before": return signed({ nbf: now + 3600 })
    case "nonce": return signed({ nonce: "another-login" })
    case "no-nonce": return signed({ nonce: undefined })
    case "unknown-key": return signed({}, { kid: "unknown" }, newKey())
    case "none": return `${encode({ alg: "none", kid: key.kid })}.${claims}.`
    case "hs256": {
      // The public key, which everybody has, as the key of a MAC.
      const text = `${encode({ ...decode(header), alg: "HS256" })}.${claims}`
      return `${text}.${createHmac("sha256", key.publicKey.export({ type: "spki", format: "pem" })).update(text).digest("base64url")}`
    }
    case "hs256-secret": {
      const text = `${encode({ alg: "HS256" })}.${claims}`
      return `${text}.${createHmac("sha256", `secret-of-${good.aud}`).update(text).digest("base64url")}`
    }
    case "garbage": return "not.a.token"
    default: throw new Error(`no such forgery: ${kind}`)
  }
}

function answer(request, response) {
  const [, area, verb, kind] = request.url.split("/")
  if (area === "test" && request.method === "POST") {
    if (verb === "rotate") open(issuer)
    if (verb === "site") {
      site = Buffer.from(kind, "base64url").toString()
      open(issuer, key)
    }
    if (verb === "forge") forgery = kind
    if (verb === "away") away = true
    if (verb === "back") away = noInfo = false
    if (verb === "no-userinfo") noInfo = true
    if (verb === "no-tokens") noTokens = true
    return response.end("done")
  }
  if (area === "test-count") return response.end(String(verb === "tokens" ? tokens : discoveries))
  if (verb === "openid-configuration") discoveries++
  if (area === "token") tokens++
  if (noTokens && area === "token") return response.writeHead(400, { "content-type": "application/json" }).end('{ "error": "invalid_grant" }')
  if (away || noInfo && area === "me") return response.writeHead(503).end("away")
  handle(request, response)
}

const files = options.tls && { cert: readFileSync(`${options.tls}/tls.pem`), key: readFileSync(`${options.tls}/tls.key`) }
const server = files ? createSecureServer({ ...files, allowHTTP1: true }, answer) : createServer(answer)

let issuer
server.listen(0, "127.0.0.1", () => {
  issuer = `${files ? "https://localhost" : "http://127.0.0.1"}:${server.address().port}`
  open(issuer)
  console.log(issuer)
})
process.stdin.on("end", () => process.exit()).resume()
