import { isClientSetting, withClientSettings } from '../db/client-settings.ts'
import type { DatabaseLog } from '../db/engine.ts'
import { openDatabase } from '../db/open-database.ts'
import { OperatorError, writeOperatorMessage } from '../errors/operator-error.ts'
import { buildInfo } from '../http/build-info.ts'
import { createLogger } from '../http/logging.ts'
import { folderProblems } from './check-folders.ts'
import { loadConfig, misspeltSettings } from './config.ts'
import { secretVariables } from './config-schema.ts'
import { openStartupLog } from './startup-log.ts'

const help = `usage: npm run start

Starts the service and runs it until a signal stops it. Its settings are environment variables, which .env may hold: see .env.example.
SIGTERM and SIGINT end it within 20 s, a second one at once: new requests get 503, running ones are finished. A charge that waits for Mercado Pago gets 504 after 7 s; the next process finds its result. SIGHUP reads the flow files again. Signals are for the node process: npm passes only Ctrl+C on, so a supervisor starts node itself, as ops/systemd does.

exit codes:
  0  it was stopped
  1  it could not start, or its stop ran out of time; the message says why
  2  the command line is wrong, or Node is too old

example:
  PORT=3000 npm start
`

/** Ends the process when it has arguments: the service reads none. */
function refuseArguments(given: readonly string[]): void {
  if (given.length === 0) return
  const isHelpRequest = given.includes('--help') || given.includes('-h')
  if (isHelpRequest) process.stdout.write(help)
  else process.stderr.write(help.slice(0, help.indexOf('\n') + 1))
  process.exit(isHelpRequest ? 0 : 2)
}

/**
 * The environment as it was given. From now on the process has no secret of its own and no setting of PostgreSQL's client in
 * it: drivers of flows, and processes that it starts, must not find them there.
 */
function takeEnvironment(): NodeJS.ProcessEnv {
  const env = { ...process.env }
  for (const name of Object.keys(process.env)) {
    if (secretVariables.has(name) || isClientSetting(name)) delete process.env[name]
  }
  return env
}

async function main(): Promise<void> {
  refuseArguments(process.argv.slice(2))
  const env = takeEnvironment()
  const config = loadConfig(env, folderProblems)
  const startupLog = process.stdout.isTTY ? openStartupLog(process.stdout) : undefined
  // A terminal that is closed fails every write. The service goes on without its log, and can still be stopped.
  if (startupLog) process.stdout.on('error', () => {})
  const logger = createLogger(config.logLevel, startupLog)
  for (const { name, meant } of misspeltSettings(env)) {
    logger.warn(
      { variable: name, meant },
      'unknown setting ignored: its name is similar to a known setting',
    )
  }
  const { dataDir } = config
  const databaseUrl = config.databaseUrl && withClientSettings(config.databaseUrl, env)
  const log: DatabaseLog = (level, fields, message) => logger[level](fields, message)
  const loading = import('./run-service.ts')
  // The embedded database opens while the modules load. A server's answer would have to wait: loading blocks the event
  // loop, on a busy machine for longer than the time limit of the connection.
  const opening =
    databaseUrl === undefined
      ? openDatabase({ dataDir, log })
      : loading.then(() => openDatabase({ databaseUrl, log }))
  const [database, { runService }] = await Promise.all([
    opening,
    loading,
    buildInfo.commit().then((commit) => {
      logger.info({ version: buildInfo.version, commit, node: process.version }, 'starting')
    }),
  ])
  await runService(config, { logger, startupLog, database, env })
}

main().catch((error: unknown) => {
  const text = error instanceof OperatorError ? writeOperatorMessage(error) : (error as Error).stack
  process.stderr.write(`${text}\n`)
  process.exitCode = 1
})
