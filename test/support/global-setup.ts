import type { TestProject } from 'vitest/node'
import { startPgbouncer } from './pgbouncer.ts'
import { pgliteTemplate, removeOldTemplates } from './pglite-template.ts'
import { createPostgresTemplate } from './postgres-template.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The name of the migrated database to clone; absent without TEST_DATABASE_URL. */
    postgresTemplate?: string
    /** The server by way of a pooler, and whether changes are received beside it; absent without TEST_POOLER. */
    pooler?: { url: string; isHeardDirectly: boolean }
  }
}

export default async function setup(project: TestProject): Promise<(() => Promise<void>) | void> {
  await pgliteTemplate()
  await removeOldTemplates()
  const url = process.env.TEST_DATABASE_URL
  if (!url) return
  const template = await createPostgresTemplate(url)
  project.provide('postgresTemplate', template.name)
  const wish = process.env.TEST_POOLER
  if (!wish) return template.remove
  const pooler = await startPgbouncer(url, wish === 'session' ? 'session' : 'transaction')
  project.provide('pooler', { url: pooler.urlOf(url), isHeardDirectly: wish === 'transaction' })
  return async () => {
    await pooler.close()
    await template.remove()
  }
}
