import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { pgliteTemplate, removeOldTemplates } from './pglite-template.ts'
import { createPostgresTemplate } from './postgres-template.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The name of the migrated database to clone; absent without TEST_DATABASE_URL. */
    postgresTemplate?: string
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await pgliteTemplate()
  await removeOldTemplates()
  const folder = await temporaryFolder()
  const url = process.env.TEST_DATABASE_URL
  const template = url ? await createPostgresTemplate(url) : undefined
  if (template) project.provide('postgresTemplate', template.name)
  return async () => {
    await template?.remove()
    // A browser that is ending still writes there.
    await rm(folder, { recursive: true, force: true, maxRetries: 10 })
  }
}

/** Where the workers make their temporary files, so that a file of which no test is played leaves nothing behind. */
async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'tillbridge-tests-'))
  // Servers of tests run as accounts of their own.
  await chmod(folder, 0o755)
  process.env.TMPDIR = folder
  return folder
}
