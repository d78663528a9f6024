import { settingsSchema } from '../app/config-schema.ts'
import { ownSecrets } from '../app/secrets-file.ts'
import { checkFlows } from '../flows/loading/check-flow-files.ts'
import { type CommandHelp, readArgument, runCommand } from './run-command.ts'

const help: CommandHelp = {
  usage: 'npm run flows:check [-- folder]',
  about:
    'Checks the flow files of the folder (FLOWS_DIR, or ./flows): names file, line, key and the likely fix. It needs no database and starts nothing.',
  exitCodes: [
    [0, 'every file is right'],
    [1, 'at least one file has a problem'],
    [2, 'the command line is wrong'],
  ],
  example: 'npm run flows:check -- ./flows',
}

await runCommand(help, async () => {
  const folder = readArgument()
  const setting = (name: 'DATA_DIR' | 'FLOWS_DIR' | 'CONNECTIONS_FILE') =>
    settingsSchema.shape[name].parse(process.env[name]?.trim() || undefined)
  const connectionsFile = setting('CONNECTIONS_FILE')
  const own = ownSecrets({
    dataDir: setting('DATA_DIR'),
    flowsDir: folder ?? setting('FLOWS_DIR'),
    connectionsFile,
  })
  const { lines, isGood } = await checkFlows(process.env, folder, own, connectionsFile)
  process.stdout.write(`${lines.join('\n')}\n`)
  return isGood ? 0 : 1
})
