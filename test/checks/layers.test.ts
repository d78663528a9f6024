import { existsSync, globSync, readFileSync } from 'node:fs'
import { basename, dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../../', import.meta.url))
type SourceFile = { file: string; text: string }

function readSources(pattern: string): SourceFile[] {
  return globSync(pattern, { cwd: root })
    .map((file) => ({ file, text: readFileSync(join(root, file), 'utf8') }))
    .sort((a, b) => (a.file < b.file ? -1 : 1))
}

/** Every import of one file by another; those of types alone count too. */
function importsOf(files: SourceFile[]): { from: string; to: string }[] {
  return files.flatMap(({ file, text }) => {
    const places = text.matchAll(/(?:\bfrom|\bimport\(?)\s*'(\.[^']+)'/g)
    return [...places].map(([, place = '']) => ({
      from: file,
      to: normalize(join(dirname(file), place)),
    }))
  })
}

const sources = readSources('src/**/*.ts')
const imports = importsOf(sources)

/** What puts everything together, and alone reads settings: nothing else imports it. */
const top = ['src/app/', 'src/commands/']
const rooms = {
  routes: 'src/routes/',
  payments: 'src/payments/',
  flows: 'src/flows/',
  notifications: 'src/notifications/',
  provider: 'src/provider/',
  repositories: 'src/repositories/',
  http: 'src/http/',
  db: 'src/db/',
  backup: 'src/backup/',
  fleet: 'src/fleet/',
  jobs: 'src/jobs/',
  metrics: 'src/metrics/',
}
const { routes, payments, flows, notifications, provider, repositories, http, db } = rooms
const { backup, fleet, jobs, metrics } = rooms
const everyRoom = Object.values(rooms)
const pure = ['src/domain/', 'src/errors/']

/** What a room never imports, whatever the depth of the folder in which the file lies. */
const fences: [room: string, never: string[]][] = [
  [routes, [provider, flows, ...top]],
  [payments, [routes, http, flows, notifications, ...top]],
  [flows, [payments, provider, routes, ...top]],
  [notifications, [payments, provider, routes, flows, ...top]],
  [metrics, [payments, routes, http, flows, ...top]],
  [fleet, [payments, provider, routes, flows, notifications, http, ...top]],
  [backup, [routes, provider, flows, notifications, ...top]],
  ['src/tracing/', [payments, repositories, routes, ...top]],
  [provider, [repositories, jobs, db, payments, fleet, routes, http, flows, ...top]],
  [jobs, [payments, fleet, provider, routes, http, flows, notifications, ...top]],
  [repositories, [payments, fleet, jobs, provider, routes, http, flows, notifications, ...top]],
  [http, [repositories, jobs, db, payments, provider, routes, flows, ...top]],
  ['src/outbound/', [...everyRoom, 'src/domain/', ...top]],
  ['src/texts/', [...everyRoom, ...pure, ...top]],
  ['src/files/', [...everyRoom, 'src/domain/', ...top]],
  [db, [...everyRoom.filter((room) => room !== db), ...top]],
  ...pure.map((room): [string, string[]] => [room, [...everyRoom, ...top]]),
]

/** The code of an error of Node.js or of a driver is read wherever one is caught, and pauses grow by one rule everywhere. */
const forAll = ['src/domain/error-code.ts', 'src/domain/backoff.ts']

test.each(fences)('%s imports nothing from above', (room, never) => {
  const crossing = imports
    .filter(({ from, to }) => from.startsWith(room) && never.some((above) => to.startsWith(above)))
    .filter(({ to }) => !forAll.includes(to))
    .map(({ from, to }) => `${from} imports ${to}`)
  expect(crossing).toEqual([])
})

/** The files that a file loads as it is imported: what it imports on demand, or as a type, is not among them. */
function loadedWith(first: string): Set<string> {
  const texts = new Map(sources.map(({ file, text }) => [file, text]))
  const loaded = new Set([first])
  for (const file of loaded) {
    const places = (texts.get(file) ?? '').matchAll(/^(import|export)(?! type)[^;']*?'(\.[^']+)'/gm)
    for (const [, , place = ''] of places) loaded.add(normalize(join(dirname(file), place)))
  }
  return loaded
}

test('the payment API listens before the modules of flows are loaded', () => {
  const loaded = [...loadedWith('src/app/main.ts'), ...loadedWith('src/app/run-service.ts')]
  expect(loaded).toContain('src/app/payment-api.ts')
  const ofFlows = loaded.filter((file) => file.startsWith(rooms.flows))
  // A misspelt setting is found with it.
  expect([...new Set(ofFlows)]).toEqual(['src/flows/definition/did-you-mean.ts'])
})

test('the sandbox stands alone', () => {
  const product = imports.filter(({ to }) => to.startsWith('sandbox/'))
  const from = [...new Set(product.map((each) => each.from))].sort()
  // Who starts it.
  expect(from).toEqual(['src/app/find-provider.ts', 'src/commands/run-sandbox.ts'])
  const outside = importsOf(readSources('sandbox/**/*.ts')).filter(
    ({ to }) => !to.startsWith('sandbox/'),
  )
  expect(outside).toEqual([])
})

test('the fences stand around all there is', () => {
  for (const [room, never] of fences) {
    for (const place of [room, ...never]) {
      expect([place, existsSync(join(root, place))]).toEqual([place, true])
    }
  }
  const fenced = new Set([...fences.map(([room]) => room), ...top])
  const outside = sources.filter(({ file }) => ![...fenced].some((room) => file.startsWith(room)))
  expect(outside.map(({ file }) => file)).toEqual([])
})

const families = {
  payments: [
    'admin api-keys audit background chargebacks closings connection encryption events operations orders',
    'people process provider-payments sales settlements stores terminals unclaimed-payments webhooks',
  ],
  repositories: [
    'api-keys audit chargebacks closings connection encryption events fleet flows metrics notifications operations',
    'orders people provider-payments sales session settlements statistics stores unclaimed-payments webhooks',
  ],
  routes: [
    'admin api-keys audit chargebacks closings connection events fleet metrics orders overview',
    'people sales session settlements statistics stores terminals unclaimed-payments webhooks',
  ],
}

test.each(Object.entries(families))(
  '%s lies by family, under the names that each layer has',
  (layer, names) => {
    const folders = sources.flatMap(({ file }) => {
      const [, room, folder, name] = file.split('/')
      return room === layer && name !== undefined ? [folder] : []
    })
    expect([...new Set(folders)]).toEqual(names.flatMap((line) => line.split(' ')))
  },
)

test('a file name stands once in the source', () => {
  // Flows have their own tree.
  const flows = /^src\/flows\//
  const others = sources.filter(({ file }) => !file.startsWith('src/texts/'))
  const places = Map.groupBy(others, ({ file }) => basename(file))
  const twice = [...places.values()]
    .map((group) => group.map(({ file }) => file))
    .filter((files) => files.length > 1 && !files.every((file) => flows.test(file)))
  expect(twice).toEqual([])
})

const exported =
  /^export (?:abstract |async )*(?:function\*?|const|let|class|type|interface) (\w+)/gm

test('an exported name stands for one thing', () => {
  // Each language has the same texts.
  const others = sources.filter(({ file }) => !file.startsWith('src/texts/'))
  const names = others.flatMap(({ file, text }) =>
    [...text.matchAll(exported)].map(([, name]) => ({ name, file })),
  )
  const places = Map.groupBy(names, ({ name }) => name)
  const twice = [...places].flatMap(([name, all]) => {
    const files = [...new Set(all.map(({ file }) => file))]
    return files.length > 1 ? [`${name}: ${files.join(', ')}`] : []
  })
  expect(twice).toEqual([])
})

test('no import gives a name of ours another name', () => {
  const renamed = sources.flatMap(({ file, text }) =>
    [...text.matchAll(/^import [^'"]*?\b(\w+ as \w+)[^'"]*? from '\./gm)].map(
      ([, names]) => `${file}: ${names}`,
    ),
  )
  expect(renamed).toEqual([])
})

const statement = /\bsql(?:<[^`;]*>)?`|\.(?:selectFrom|insertInto|updateTable|deleteFrom)\(/

test('statements stand in repositories alone', () => {
  // What the database itself needs, copies of whole tables, and what flows write into databases of others.
  const others = [repositories, db, backup, 'src/flows/destinations/statements/']
  const files = sources
    .filter(({ file, text }) => !others.some((one) => file.startsWith(one)) && statement.test(text))
    .map(({ file }) => file)
  expect(files).toEqual([])
})

test('settings are read in app and by commands alone', () => {
  // How git is found.
  const others = [...top, 'src/http/build-info.ts']
  const files = sources
    .filter(
      ({ file, text }) =>
        !others.some((one) => file.startsWith(one)) && /process\.env\b/.test(text),
    )
    .map(({ file }) => file)
  expect(files).toEqual([])
})

/** Each circle of imports, as the way through it. */
function circlesOf(edges: readonly { from: string; to: string }[]): string[] {
  const to = Map.groupBy(edges, ({ from }) => from)
  const isDone = new Set<string>()
  const circles: string[] = []
  const follow = (place: string, way: readonly string[]): void => {
    const begin = way.indexOf(place)
    if (begin !== -1) {
      circles.push([...way.slice(begin), place].join(' > '))
      return
    }
    if (isDone.has(place)) return
    for (const one of to.get(place) ?? []) follow(one.to, [...way, place])
    isDone.add(place)
  }
  for (const place of to.keys()) follow(place, [])
  return circles
}

test('no files import each other in a circle, not even types', () => {
  expect(circlesOf(imports)).toEqual([])
})

test('no folders import each other in a circle, not even types', () => {
  const between = imports
    .map(({ from, to }) => ({ from: dirname(from), to: dirname(to) }))
    .filter(({ from, to }) => from !== to && to.startsWith('src/'))
  const edges = [...new Map(between.map((edge) => [`${edge.from} > ${edge.to}`, edge])).values()]
  expect(circlesOf(edges)).toEqual([])
})
