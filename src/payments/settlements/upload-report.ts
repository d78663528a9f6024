import type { ClientName } from '../../domain/client-name.ts'
import { AppError, invalid } from '../../errors/app-error.ts'
import { auditFailure, recordSuccess } from '../audit/activity.ts'
import type { Actor, PaymentDeps } from '../deps.ts'
import { type ImportedReport, importReportText } from './import-report.ts'
import { ReportError } from './parse-report.ts'
import { offsetOfZone } from './report-amounts.ts'

/** Some 20,000 movements; a connection has 3 s to send them. */
export const reportLimitBytes = 8 * 1024 * 1024

/**
 * Stores a report that a person uploads.
 *
 * @throws VALIDATION_ERROR with the line, when it cannot be read; nothing of it is stored then
 */
export async function uploadReport(
  deps: PaymentDeps,
  client: ClientName,
  given: { text: string; name: string | null; zone: string | undefined },
  actor: Actor,
): Promise<ImportedReport> {
  const offset = given.zone === undefined ? undefined : offsetOfZone(given.zone)
  if (given.zone !== undefined && offset === undefined) {
    throw invalid('zone', { code: 'OFFSET_UNKNOWN' })
  }
  const entry = {
    client,
    actor,
    action: 'settlement.taken_in',
    resourceId: given.name,
  }
  return auditFailure(deps, entry, async () => {
    return importReportText(deps, client, given.text, {
      origin: 'handed_in',
      name: given.name,
      offset,
      along: (trx, { file, rows, added, changed }) =>
        recordSuccess(deps, trx, {
          ...entry,
          resourceId: file.id,
          metadata: { name: given.name, report: file.report, rows, added, changed },
        }),
    }).catch((error: unknown) => {
      throw error instanceof ReportError
        ? new AppError('VALIDATION_ERROR', {
            details: [{ path: 'content', message: error.message }],
          })
        : error
    })
  })
}
