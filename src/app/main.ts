import { openDatabase } from '../db/database.ts'
import { OperatorError, tellOperator } from '../errors/operator-error.ts'
import { createLogger } from '../http/logging.ts'
import { product } from '../http/product.ts'
import { loadConfig, misspeltSettings } from './config.ts'
import { placeProblems } from './setting-places.ts'

async function main(): Promise<void> {
  const config = loadConfig(process.env, placeProblems)
  const logger = createLogger(config.logLevel)
  for (const { name, meant } of misspeltSettings(process.env)) {
    logger.warn(
      { variable: name, meant },
      'unknown setting ignored: the name is nearly that of a setting',
    )
  }
  const { databaseUrl, databaseDirectUrl: directUrl, dataDir } = config
  const opening = openDatabase({
    ...(databaseUrl === undefined ? { dataDir } : { databaseUrl, ...(directUrl && { directUrl }) }),
    log: (level, fields, message) => logger[level](fields, message),
  })
  // While the database opens, which takes as long: the modules of the service, and what git says.
  const [database, { runService }] = await Promise.all([
    opening,
    import('./run-service.ts'),
    product.commit().then((commit) => {
      logger.info({ version: product.version, commit, node: process.version }, 'tillbridge starts')
    }),
  ])
  await runService(config, { logger, database, env: process.env })
}

main().catch((error: unknown) => {
  const text = error instanceof OperatorError ? tellOperator(error) : (error as Error).stack
  process.stderr.write(`${text}\n`)
  process.exitCode = 1
})
