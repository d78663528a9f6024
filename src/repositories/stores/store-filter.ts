import { type RawBuilder, sql } from 'kysely'
import type { StoresSeen } from '../../domain/permissions.ts'

/** Whether a column with the ERP's id of a store is one of those that the request may show; without a limit always. */
export function inStores(stores: StoresSeen, column = 'sucursal_id'): RawBuilder<boolean> {
  if (stores === undefined) return sql<boolean>`true`
  return sql<boolean>`${sql.ref(column)} = any(${stores}::text[])`
}
