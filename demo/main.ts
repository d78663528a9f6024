import { folderProblems } from '../src/app/check-folders.ts'
import { ConfigError, loadConfig } from '../src/app/config.ts'
import { playChain } from './chain/play-chain.ts'
import { closeDay } from './closing-day.ts'
import { openShop, playFlows, type Shop } from './flow-day.ts'
import { expectStatus, request } from './http.ts'
import { type ServiceProcess, startService } from './service-process.ts'
import { createSteps, StepError } from './steps.ts'
import { playTillDay } from './till-day.ts'

const usage = 'usage: npm run demo [-- --chain] [-- --once]\n'
const help = `${usage}
Plays a till's day and an ERP's flows against the built-in sandbox provider, and checks each step.

options:
  --chain  fills an instance of its own, in data/chain, with a chain: 10 stores, 300 boxes, 9,000 sales of yesterday and
           today, refunds, boxes that cannot charge, closings, and 50 flows
  --once   ends after the steps; without it the service stays up

exit codes:
  0  every step was right, or it was stopped
  1  a step failed; the message says which
  2  the command line is wrong

example:
  npm run demo -- --once
  npm run demo -- --chain
`
const given = process.argv.slice(2)
const once = given.includes('--once')
const isChain = given.includes('--chain')
const options = ['--once', '--chain']
if (given.includes('--help') || given.includes('-h')) {
  process.stdout.write(help)
  process.exit(0)
}
if (given.some((option) => !options.includes(option))) {
  process.stderr.write(usage)
  process.exit(2)
}
try {
  const { DATA_DIR, PORT, SANDBOX_PORT, SYNC_PORT } = process.env
  const own = { PROVIDER: 'sandbox', DATA_DIR, PORT, SANDBOX_PORT, SYNC_PORT }
  loadConfig(own, folderProblems)
} catch (error) {
  if (!(error instanceof ConfigError)) throw error
  process.stderr.write(`${error.message}\n`)
  process.exit(1)
}
const steps = createSteps((text) => void process.stdout.write(text))
let service: ServiceProcess | undefined
let shop: Shop | undefined

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void end(0))
}

try {
  if (isChain) await showChain()
  else await showTillDay()
} catch (error) {
  const reasons: string[] = []
  for (let at: unknown = error; at instanceof Error; at = at.cause) reasons.push(at.message)
  process.stderr.write(`\n${reasons.join('\n  because: ')}\n`)
  if (!(error instanceof StepError)) process.stderr.write(`${(error as Error).stack}\n`)
  if (service) process.stderr.write(`The log of the service: ${service.logFile}\n`)
  await end(1)
}

async function showChain(): Promise<void> {
  steps.line('tillbridge demo: a chain of 10 stores and 300 boxes on the built-in sandbox provider')
  steps.line()
  shop = await openShop()
  const { key } = await playChain(shop.url, steps, (started) => {
    service = started
  })
  if (once) return end(0)
  await stayUp(key)
}

async function showTillDay(): Promise<void> {
  steps.line(
    'tillbridge demo: a till’s day and an ERP’s flows against the built-in sandbox provider',
  )
  steps.line()
  const webShop = await openShop()
  shop = webShop
  const running = await steps.step('Start the service and its database', async () => {
    service = await startService(webShop.url)
    return {
      shown: `payment API on ${service.url}, flow control API on ${service.syncUrl}`,
      value: service,
    }
  })
  const { key, box, from } = await playTillDay(running, steps)
  await playFlows(running, key, webShop, steps)
  await closeDay(running, { key, box, from }, steps)
  steps.line()
  if (once) return end(0)
  // From now on people are the buyers: terminals fetch orders like real ones.
  await request('PUT', `${running.sandboxUrl}/_sandbox/pace`, {
    body: { fetch_ms: 1500, event_ms: 2500 },
  })
  expectStatus(await request('POST', `${running.syncUrl}/flows/resume`))
  await stayUp(key)
}

/** Prints the addresses, and waits until the service ends. */
async function stayUp(key: string): Promise<void> {
  if (!service) return
  steps.line(`The service stays up. Stop it with Ctrl+C.

  Dashboard           ${service.url}/dashboard
    admin token       ${service.adminToken}
    key of the client ${key}
  Flows               ${service.syncUrl}/admin (asks for no token on this machine)
  API documentation   ${service.url}/docs
  Virtual terminals   ${service.sandboxUrl}/
  Situations          ${service.sandboxUrl}/_sandbox/ (what can go wrong at a till)
  Log                 ${service.logFile}

Charge from another window, then pay on the virtual terminals:

  curl -s ${service.url}/orders -H 'x-api-token: ${key}' \\
    -H 'content-type: application/json' \\
    -d '{"caja_id":"CAJA-1","external_reference":"T-1","amount":"100,00"}'
`)
  const code = await service.ended
  process.exitCode = code ?? 1
}

async function end(code: number): Promise<void> {
  await service?.stop()
  await shop?.close()
  process.exit(code)
}
