import type { Trx } from '../../db/database.ts'
import type { ClientName } from '../../domain/client-name.ts'
import { insertEvent } from '../events/event-log.ts'
import type { ConnectionRow } from './connection-queries.ts'

/** Writes that a connection was lost or works again, after its row was changed. */
export async function insertConnectionEvent(
  trx: Trx,
  client: ClientName,
  status: ConnectionRow['status'],
  { at, reason = null }: { at: Date; reason?: string | null },
): Promise<void> {
  const isLost = status === 'lost'
  await insertEvent(trx, {
    client,
    sucursalId: null,
    cajaId: null,
    type: isLost ? 'connection.lost' : 'connection.restored',
    at,
    resource: { type: 'connection', id: client, version: null },
    orderId: null,
    changes: {
      status: { from: isLost ? 'connected' : 'lost', to: status },
      ...(isLost && { reason: { from: null, to: reason } }),
    },
    data: null,
  })
}
