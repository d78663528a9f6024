import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { expect, test } from 'vitest'

const root = new URL('../../', import.meta.url).pathname

/** Every import of one file of the source by another; those of types alone count too. */
const imports = globSync('src/**/*.ts', { cwd: root }).flatMap((from) => {
  const text = readFileSync(join(root, from), 'utf8')
  const places = text.matchAll(/(?:\bfrom|\bimport\(?)\s*'(\.[^']+)'/g)
  return [...places].map(([, place = '']) => ({ from, to: normalize(join(dirname(from), place)) }))
})

/** What puts everything together, and alone reads settings. */
const settings = ['src/app/', 'src/commands/']
const rooms = {
  routes: 'src/routes/',
  payments: 'src/payments/',
  sync: 'src/sync/',
  provider: 'src/provider/',
  repositories: 'src/repositories/',
  http: 'src/http/',
  db: 'src/db/',
  sandbox: 'src/sandbox/',
  backup: 'src/backup/',
  fleet: 'src/fleet/',
  closings: 'src/closings/',
  chargebacks: 'src/chargebacks/',
  metrics: 'src/metrics/',
}
const { routes, payments, sync, provider, repositories, http, db, sandbox, backup, fleet } = rooms
const { closings, chargebacks, metrics } = rooms
const everyRoom = Object.values(rooms)
const pure = ['src/domain/', 'src/errors/']

/** What a room never imports, whatever the depth of the folder in which the file lies. */
const fences: [room: string, never: string[]][] = [
  [routes, [provider, sandbox, sync, ...settings]],
  [payments, [routes, http, sandbox, sync, ...settings]],
  [sync, [payments, provider, routes, sandbox, ...settings]],
  [closings, [routes, http, sandbox, sync, ...settings]],
  [chargebacks, [routes, http, sandbox, sync, ...settings]],
  [metrics, [payments, routes, http, sync, ...settings]],
  [fleet, [payments, provider, routes, sync, http, sandbox, ...settings]],
  [provider, [repositories, db, payments, routes, http, sandbox, sync, ...settings]],
  [repositories, [payments, provider, routes, http, sandbox, sync, ...settings]],
  [http, [repositories, db, payments, provider, routes, sandbox, sync, 'src/domain/', ...settings]],
  ['src/outbound/', [...everyRoom, 'src/domain/', ...settings]],
  ['src/files/', [...everyRoom, 'src/domain/', ...settings]],
  ['src/jobs/', [payments, provider, routes, http, sandbox, sync, ...settings]],
  [db, [repositories, payments, provider, routes, http, sandbox, sync, backup, ...settings]],
  ...pure.map((room): [string, string[]] => [room, [...everyRoom, ...settings]]),
]

test.each(fences)('%s imports nothing from above', (room, never) => {
  const crossing = imports
    .filter(({ from, to }) => from.startsWith(room) && never.some((above) => to.startsWith(above)))
    .map(({ from, to }) => `${from} imports ${to}`)
  expect(crossing).toEqual([])
})

test('the sandbox stands alone', () => {
  const crossing = imports.filter(
    ({ from, to }) => from.startsWith(sandbox) !== to.startsWith(sandbox),
  )
  // Who starts it.
  const from = [...new Set(crossing.map((each) => each.from))].sort()
  expect(from).toEqual(['src/app/run-service.ts'])
})

test('the fences stand around what there is', () => {
  for (const [room, never] of fences) {
    for (const place of [room, ...never]) {
      expect([place, existsSync(join(root, place))]).toEqual([place, true])
    }
  }
})
