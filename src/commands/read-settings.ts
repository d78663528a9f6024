import { type Config, loadConfig, misspeltSettings, spellingHint } from '../app/config.ts'

/**
 * The settings of a command, from the environment. A misspelt one is named on standard error, since the command would work with
 * another database or folder than the administrator means.
 *
 * @throws ConfigError
 */
export function readSettings(): Config {
  const config = loadConfig(process.env)
  for (const found of misspeltSettings(process.env)) {
    process.stderr.write(`${spellingHint(found)}\n`)
  }
  return config
}
