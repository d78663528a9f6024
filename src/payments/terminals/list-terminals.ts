import type { ClientName } from '../../domain/client-name.ts'
import type { OperatingMode } from '../../domain/order.ts'
import type { StoresSeen } from '../../domain/permissions.ts'
import type { ProviderTerminal } from '../../provider/provider.ts'
import { listPlaces } from '../../repositories/provider-payments/provider-payments.ts'
import { findPos, findStore } from '../../repositories/stores/store-queries.ts'
import { callForClient } from '../connection/account-calls.ts'
import type { PaymentDeps } from '../deps.ts'

type Terminal = {
  id: string
  /** The ERP's ids; null for a box or store that is not stored here. */
  sucursalId: string | null
  cajaId: string | null
  operatingMode: OperatingMode
}

type TerminalFilter = {
  sucursalId?: string | undefined
  cajaId?: string | undefined
  /** Terminals of these stores only; a page then has fewer of them. */
  stores?: StoresSeen
  limit: number
  offset: number
}

/** A page of the client's terminals with the ERP's ids. A filter on an unknown id gives an empty list. */
export async function listTerminals(
  deps: PaymentDeps,
  client: ClientName,
  filter: TerminalFilter,
): Promise<Terminal[]> {
  const { db } = deps.database
  const { limit, offset } = filter
  const query: { mpPosId?: string; mpStoreId?: string } = {}
  if (filter.sucursalId !== undefined) {
    const store = await findStore(db, client, filter.sucursalId)
    if (!store || store.mp_store_id === null) return []
    query.mpStoreId = store.mp_store_id
  }
  if (filter.cajaId !== undefined) {
    const pos = await findPos(db, client, filter.cajaId)
    if (!pos || pos.mp_pos_id === null) return []
    if (query.mpStoreId !== undefined && pos.mp_store_id !== query.mpStoreId) return []
    query.mpPosId = pos.mp_pos_id
  }
  const { terminals, rows } = await callForClient(deps, client, 'terminal.list', ({ token }) =>
    deps.provider.terminals.list(token, { ...query, limit, offset }),
  )
  const names = await erpNames(deps, client)
  noteTerminals(deps, client, terminals, {
    cajaOf: (terminal) => names(terminal).cajaId,
    areAll: offset === 0 && rows < limit && terminals.length === rows,
  })
  const isSeen = (terminal: ProviderTerminal) =>
    filter.stores === undefined || filter.stores.includes(names(terminal).sucursalId ?? '')
  return terminals.filter(isSeen).map((terminal) => {
    if (terminal.providerMode !== 'PDV' && terminal.providerMode !== 'STANDALONE') {
      deps.log.warn(
        { client, terminalId: terminal.id, mode: terminal.providerMode },
        'unknown terminal mode; shown as STANDALONE',
      )
    }
    return { id: terminal.id, ...names(terminal), operatingMode: terminal.operatingMode }
  })
}

/**
 * Updates the health of boxes from the terminals that were read. A box has at most one terminal in PDV, and others that work
 * standalone. That it has none shows only in a complete list.
 */
function noteTerminals(
  deps: PaymentDeps,
  client: ClientName,
  terminals: readonly ProviderTerminal[],
  { cajaOf, areAll }: { cajaOf: (terminal: ProviderTerminal) => string | null; areAll: boolean },
): void {
  for (const [cajaId, [first, ...others]] of Map.groupBy(terminals, cajaOf)) {
    if (cajaId === null || !first) continue
    const ready = [first, ...others].find(({ operatingMode }) => operatingMode === 'PDV')
    if (!ready && !areAll) continue
    const found = ready ? 'pdv' : 'standalone'
    deps.fleet.recordFinding({ client, cajaId, found, terminalId: (ready ?? first).id })
  }
}

async function erpNames(deps: PaymentDeps, client: ClientName) {
  const { boxes, stores } = await listPlaces(deps.database.db, client)
  const storeOf = new Map(stores.map((store) => [store.mp_store_id, store.sucursal_id]))
  const boxOf = new Map(boxes.map((box) => [box.mp_pos_id, box.caja_id]))
  return ({ mpStoreId, mpPosId }: ProviderTerminal) => ({
    sucursalId: storeOf.get(mpStoreId ?? '') ?? null,
    cajaId: boxOf.get(mpPosId ?? '') ?? null,
  })
}
