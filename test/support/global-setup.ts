import type { TestProject } from 'vitest/node'
import { pgliteTemplate, removeOldTemplates } from './pglite-template.ts'
import { createPostgresTemplate } from './postgres-template.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The name of the migrated database to clone; absent without TEST_DATABASE_URL. */
    postgresTemplate?: string
  }
}

export default async function setup(project: TestProject): Promise<(() => Promise<void>) | void> {
  await pgliteTemplate()
  await removeOldTemplates()
  const url = process.env.TEST_DATABASE_URL
  if (!url) return
  const template = await createPostgresTemplate(url)
  project.provide('postgresTemplate', template.name)
  return template.remove
}
