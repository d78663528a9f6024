import { glob, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

// Rules that no answer of the service shows when they are broken: they are kept over its source.

const root = fileURLToPath(new URL('../..', import.meta.url))

async function sources(): Promise<{ file: string; code: string }[]> {
  const files: { file: string; code: string }[] = []
  for await (const file of glob('src/**/*.ts', { cwd: root })) {
    files.push({ file, code: withoutComments(await readFile(`${root}${file}`, 'utf8')) })
  }
  return files
}

/** On one line, as the formatter breaks comparisons too. */
function withoutComments(code: string): string {
  return code
    .replace(/\/\*.*?\*\//gs, '')
    .replace(/^\s*\/\/.*$/gm, '')
    .replace(/\s+/g, ' ')
}

/** The last word of what is compared: `access.syncToken`, `row.key_hash`, `hashSecret(…)`. */
const secretName =
  /(?:token|secret|password|signature|verifier|proof|cookie|hmac|api_?key|(?:key|state|browser)_?hash)s?$/i
const literal = /^(?:undefined|null|true|false|''|""|'(?:string|object|number)'|-?\d[\d_]*)$/
/** Numbers that grow with each owner of a lease, and hashes of flow definitions. No secrets. */
const fencing = new Set([
  'src/jobs/with-lease.ts',
  'src/jobs/leader.ts',
  'src/repositories/leases.ts',
])

/** The comparisons in this code by which the time of an answer could tell a secret. */
function bareComparisons(code: string): string[] {
  const pattern = /([\w$.?!\])]+|'[^']*') (?:===|!==|==|!=) ([\w$.?!]+|'[^']*')(\(?)/g
  const found: string[] = []
  for (const [text, left = '', right = '', isCall] of code.matchAll(pattern)) {
    if (literal.test(left) || (literal.test(right) && isCall === '')) continue
    const names = [left, right].map((side) =>
      side
        .replace(/[!)\]]+$/, '')
        .split(/[.?]+/)
        .at(-1),
    )
    if (names.some((name) => secretName.test(name ?? ''))) found.push(text)
  }
  const searches =
    /\.(?:includes|indexOf|startsWith|endsWith|equals|localeCompare|has)\(([\w.?]+)\)/g
  for (const [text, given = ''] of code.matchAll(searches)) {
    if (secretName.test(given)) found.push(text)
  }
  return found
}

test('T1: a secret is compared in constant time, nowhere by an operator or a search', {
  tags: ['long'],
}, async () => {
  const found: string[] = []
  for (const { file, code } of await sources()) {
    if (fencing.has(file)) continue
    for (const comparison of bareComparisons(code)) found.push(`${file}: ${comparison}`)
  }
  expect(found).toEqual([])
})

test.each([
  ['token === options.adminToken', true],
  ["if (typeof token !== 'string' || token !== access.syncToken) {", true],
  ['a.token == b', true],
  ['hashSecret(x) !== waiting.browser_hash', true],
  ['(await find()) === hashSecret(given)', true],
  ['options.adminToken.includes(token)', true],
  ['secrets.includes(secret)', true],
  ["token === ''", false],
  ["typeof token !== 'string'", false],
  ['syncToken === undefined', false],
  ['tokens.length === 3', false],
  ['state.definition_hash === definitionHash', false],
])('the rule sees through %j: %s', (code, isBare) => {
  expect(bareComparisons(code).length > 0).toBe(isBare)
})

test('T1: the comparisons in constant time are the ones of Node', { tags: ['long'] }, async () => {
  const files = await sources()
  const comparing = files.filter(({ code }) => /\btimingSafeEqual\(/.test(code))
  expect(comparing.map(({ file }) => file).sort()).toEqual([
    'src/domain/secret-hash.ts',
    // Compares digests it has just made, as buffers of one checked length.
    'src/provider/webhook-signature.ts',
  ])
  for (const { code } of comparing) {
    expect(code).toMatch(/import \{.*timingSafeEqual.*\} from 'node:crypto'/)
  }
  const own = comparing.find(({ file }) => file.endsWith('secret-hash.ts'))
  expect(own?.code).not.toMatch(/[!=]==?|\b(?:equals|compare)\(/)
})

/** Where chance spreads waits and nothing else. */
const jitter = new Set(['src/app/flow-side.ts', 'src/domain/backoff.ts'])

test('T4: no key, state, nonce or id is drawn from a generator that can be foretold', {
  tags: ['long'],
}, async () => {
  const files = await sources()
  const drawing = files.filter(({ code }) => /\bMath\s*\.\s*random|\bMath\[/.test(code))
  expect(drawing.map(({ file }) => file).sort()).toEqual([...jitter].sort())
  const secure = files.filter(({ code }) =>
    /\b(?:randomBytes|randomUUID|getRandomValues)\(/.test(code),
  )
  for (const { file, code } of secure) {
    const isNode = /import \{[^}]*random(?:Bytes|UUID)[^}]*\} from 'node:crypto'/.test(code)
    expect(isNode, file).toBe(true)
  }
})
