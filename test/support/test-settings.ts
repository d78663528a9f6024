import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const folder = mkdtempSync(join(tmpdir(), 'tillbridge-test-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))

/** What a service of a test begins with: its folders are its own, whatever lies in the folder that the tests are started in. */
export const testSettings: Readonly<Record<string, string>> = {
  PROVIDER: 'sandbox',
  DATA_DIR: folder,
  FLOWS_DIR: join(folder, 'flows'),
  CONNECTIONS_FILE: join(folder, 'connections.yaml'),
}
