// Plain JavaScript: an older Node cannot read TypeScript, and would say only ERR_UNKNOWN_FILE_EXTENSION.
import { readFileSync } from 'node:fs'
import * as modules from 'node:module'
import { fileURLToPath } from 'node:url'

const { engines } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
const needed = Number(engines.node.replace('>=', ''))
if (Number.parseInt(process.versions.node, 10) < needed) {
  process.stderr.write(
    `tillbridge needs Node ${needed} or newer. ${process.execPath} is Node ${process.versions.node}: \`npm ci\` in the project's folder brings one that \`npm start\` uses; without npm, see docs/how-to/install.md.\n`,
  )
  process.exit(2)
}
// Half of a start is compiling modules, so the compiled code is cached beside the packages, where only a user who may
// change the code may write. Without write access a start takes longer. The cache also has the TypeScript without its
// types: it is enabled before the first such file, or Node loads its compiler for one file.
modules.enableCompileCache(
  fileURLToPath(new URL('../../node_modules/.cache/tillbridge-compiled', import.meta.url)),
)
await import('./limit-heap-growth.ts')
await import('./main.ts')
