// Plain JavaScript: an older Node cannot read TypeScript, and would say only ERR_UNKNOWN_FILE_EXTENSION.
import { readFileSync } from 'node:fs'

const { engines } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
const needed = Number(engines.node.replace('>=', ''))
if (Number.parseInt(process.versions.node, 10) < needed) {
  process.stderr.write(
    `tillbridge needs Node ${needed} or newer. ${process.execPath} is Node ${process.versions.node}: \`npm ci\` in the project's folder brings one that \`npm start\` uses; without npm, see docs/how-to/install.md.\n`,
  )
  process.exit(2)
}
await import('./start.ts')
