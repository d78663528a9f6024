import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const redocly = fileURLToPath(
  new URL('../../node_modules/@redocly/cli/bin/cli.js', import.meta.url),
)

type Report = { problems: { ruleId: string; severity: string; message: string }[] }

/** What Redocly's recommended rules find in the description, errors and warnings, as `rule: message`. Works offline. */
export async function lintOpenApi(document: unknown): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'tillbridge-openapi-'))
  try {
    writeFileSync(join(folder, 'openapi.json'), JSON.stringify(document))
    writeFileSync(join(folder, 'redocly.yaml'), 'extends:\n  - recommended\ntelemetry: "off"\n')
    const output = await run(folder)
    const report = JSON.parse(output) as Report
    return report.problems.map(({ ruleId, message }) => `${ruleId}: ${message}`)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** The exit code is 1 when something is found; the report names it. */
function run(folder: string): Promise<string> {
  const args = [redocly, 'lint', 'openapi.json', '--config', 'redocly.yaml', '--format', 'json']
  const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { cwd: folder, env }, (error, stdout, stderr) => {
      if (stdout.trim().startsWith('{')) resolve(stdout)
      else reject(new Error(`Redocly gave no report: ${stderr || String(error)}`))
    })
  })
}
