import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { compiled } from '../../test/process/real-process.ts'
import { jsonFlow, startTestFlows } from '../../test/support/flows.ts'
import { asAdmin } from '../../test/support/till.ts'
import { borrowDatabase } from '../../test/support/worker-database.ts'
import { tablesPage } from './database-tables.ts'
import { eventsPage } from './event-types.ts'
import { orderMovesPage } from './order-moves.ts'
import { orderStatesModule, orderStatesPage } from './order-states.ts'
import {
  alertsPage,
  commandsPage,
  errorsPage,
  metricsPage,
  type Scrape,
  settingsPage,
} from './tables.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Commands of an operator, by the file that their script runs. */
const commands = [
  ['npm start', 'src/app/start.js'],
  ['npm run demo', 'demo/main.ts'],
  ['npm run till:check', 'demo/till-check/main.ts'],
  ['npm run sandbox', 'src/commands/run-sandbox.ts'],
  ['npm run backup', 'src/commands/back-up.ts'],
  ['npm run restore', 'src/commands/restore.ts'],
  ['npm run db:move', 'src/commands/move-database.ts'],
  ['npm run secrets:rotate', 'src/commands/rotate-secrets.ts'],
  ['npm run audit:verify', 'src/commands/verify-audit-log.ts'],
  ['npm run flows:check', 'src/commands/check-flows.ts'],
  ['npm run flows:new', 'src/commands/new-flow.ts'],
] as const

/** Every generated page, and the module of the order states, by its file name, from docs/reference on. Starts a service in memory and the commands' help. */
export async function referencePages(): Promise<Record<string, string>> {
  const [{ scrapes, tables }, helps] = await Promise.all([readService(), readHelps()])
  return {
    '../../public/dashboard/order-states.js': orderStatesModule(),
    '../internals/order-moves.md': orderMovesPage(),
    '../internals/tables.md': tables,
    'alerts.md': alertsPage(),
    'commands.md': commandsPage(helps),
    'errors.md': errorsPage(),
    'events.md': eventsPage(),
    'metrics.md': metricsPage(scrapes),
    'order-states.md': await orderStatesPage(),
    'settings.md': settingsPage(),
  }
}

async function readHelps(): Promise<{ script: string; help: string }[]> {
  const run = promisify(execFile)
  const options = { cwd: root, env: { ...process.env, NODE_COMPILE_CACHE: compiled } }
  return await Promise.all(
    commands.map(async ([script, file]) => {
      const { stdout } = await run(process.execPath, [file, '--help'], options)
      return { script, help: stdout }
    }),
  )
}

async function readService(): Promise<{ scrapes: Scrape[]; tables: string }> {
  const database = await borrowDatabase()
  const flows = await startTestFlows({
    database,
    files: { 'articulos.flow.yaml': jsonFlow('articulos', 'http://127.0.0.1:9') },
  })
  try {
    const payments = await asAdmin(flows.service, { url: '/metrics' })
    const control = await flows.call('GET', '/metrics', { headers: { accept: 'text/plain' } })
    const scrapes = [
      { listener: 'Port 3000, payment API', text: payments.body },
      { listener: 'Port 8080, flow control API', text: control.body },
    ]
    return { scrapes, tables: await tablesPage(database.db) }
  } finally {
    await flows.stop()
    await database.close()
  }
}
