import { fenceOf } from '../definition/reach.ts'
import type { Flow } from '../definition/schema.ts'
import type { Source } from '../types.ts'
import { FileSource } from './file.ts'
import { localFiles } from './file-local.ts'
import { HttpSource } from './http.ts'
import { openPaymentsSource } from './payments-feed.ts'
import { sftpFiles } from './sftp-files.ts'
import type { SourceContext } from './source-context.ts'
import { openSqlSource } from './sql.ts'

/**
 * Opens the source of a flow. It connects only at the first scan. Throws SourceError for a contradiction in the definition
 * that only shows here, such as an unknown query parameter.
 */
export function openSource(context: SourceContext): Source {
  const { source } = context.flow
  switch (source.type) {
    case 'sql':
      return openSqlSource(source, context)
    case 'http':
      return new HttpSource(source, context)
    case 'file':
      return new FileSource(
        source,
        context,
        localFiles(source.path, fenceOf(context.flow, 'source')),
      )
    case 'sftp':
      return new FileSource(source, context, sftpFiles(source, context))
    case 'payments.orders':
    case 'payments.settlements':
    case 'payments.closings':
      return openPaymentsSource(source, context)
  }
}

/** Whether the source reads the payment side. Its records are never deleted and are read by their last change. */
export function isPaymentsSource(
  source: Flow['source'],
): source is Extract<Flow['source'], { type: `payments.${string}` }> {
  return source.type.startsWith('payments.')
}
