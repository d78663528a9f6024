import type { ClientName } from '../../domain/client-name.ts'
import type { OperatingMode } from '../../domain/order.ts'
import { AppError } from '../../errors/app-error.ts'
import { ProviderError, toAppError } from '../../provider/provider.ts'
import { findPos } from '../../repositories/stores/store-queries.ts'
import { auditFailure, recordSuccess } from '../audit/activity.ts'
import { withAccess } from '../connection/access.ts'
import type { Actor, PaymentDeps } from '../deps.ts'

/**
 * Switches every terminal of a box, one after the other. The provider allows one PDV terminal per box.
 *
 * @throws NOT_FOUND (box), TERMINAL_NOT_FOUND, ONE_PDV_PER_BOX, or the provider's failure
 */
export async function setOperatingMode(
  deps: PaymentDeps,
  client: ClientName,
  request: { cajaId: string; operatingMode: OperatingMode },
  actor: Actor,
): Promise<number> {
  const entry = {
    client,
    actor,
    action: 'terminal.mode_changed',
    resourceId: request.cajaId,
    metadata: { operating_mode: request.operatingMode },
  }
  return auditFailure(deps, entry, async () => {
    const pos = await findPos(deps.database.db, client, request.cajaId)
    if (!pos || pos.mp_pos_id === null) {
      throw new AppError('NOT_FOUND', { message: 'There is no such box; check caja_id' })
    }
    const mpPosId = pos.mp_pos_id
    let updated = 0
    try {
      await withAccess(deps, client, async ({ token }) => {
        const { terminals } = await deps.provider.terminals.list(token, { mpPosId })
        const paired = terminals.filter((terminal) => terminal.mpPosId === mpPosId)
        if (paired.length === 0) throw new AppError('TERMINAL_NOT_FOUND')
        updated = 0
        for (const terminal of paired) {
          await deps.provider.terminals.setMode(token, terminal.id, request.operatingMode)
          const found = request.operatingMode === 'PDV' ? 'pdv' : 'standalone'
          deps.fleet.recordFinding({
            client,
            cajaId: request.cajaId,
            found,
            terminalId: terminal.id,
          })
          updated += 1
        }
      })
    } catch (error) {
      if (!(error instanceof ProviderError)) throw error
      const failure = toAppError(error, 'terminal.mode')
      throw new AppError(failure.code, {
        message: `${failure.message} (terminals switched before: ${updated})`,
        cause: error,
        extra: failure.extra,
      })
    }
    await deps.database.transaction((trx) =>
      recordSuccess(deps, trx, {
        ...entry,
        metadata: { ...entry.metadata, terminals_updated: updated },
      }),
    )
    return updated
  })
}
