import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const version = JSON.parse(
  readFileSync(join(root, 'clients/typescript/package.json'), 'utf8'),
).version

/** Packs clients/typescript, and installs the packed file in a program's folder, as a user would. Answers the files in it. */
export function installClient(folder: string): string[] {
  // A copy, so that two tests do not compile into one folder.
  const source = join(folder, 'source')
  cpSync(join(root, 'clients/typescript'), source, { recursive: true })
  run('npm', ['pack', '--pack-destination', folder], source)
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }')
  const packed = join(folder, `tillbridge-client-${version}.tgz`)
  run('npm', ['install', '--offline', '--no-audit', '--no-fund', packed], folder)
  // For the type check of what uses it.
  mkdirSync(join(folder, 'node_modules/@types'), { recursive: true })
  symlinkSync(join(root, 'node_modules/@types/node'), join(folder, 'node_modules/@types/node'))
  return run('tar', ['-tzf', packed], folder).trim().split('\n')
}

/** The type errors of a program there. */
export function typeErrors(folder: string, file: string): string {
  const options = '--noEmit --strict --module nodenext --target es2024 --types node --skipLibCheck'
  const { stdout } = spawnSync(
    process.execPath,
    [join(root, 'node_modules/typescript/bin/tsc'), ...options.split(' '), file],
    { cwd: folder, encoding: 'utf8' },
  )
  return stdout
}

function run(command: string, words: string[], cwd: string): string {
  const PATH = `${join(root, 'node_modules/.bin')}${delimiter}${process.env.PATH}`
  const env = { ...process.env, PATH }
  const { status, stdout, stderr } = spawnSync(command, words, { cwd, encoding: 'utf8', env })
  if (status !== 0) throw new Error(`${command} ${words.join(' ')}: ${stderr}${stdout}`)
  return stdout
}
