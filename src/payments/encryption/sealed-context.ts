import {
  grantContext,
  type SealedColumn,
  type SealedValue,
  totpContext,
} from '../../repositories/encryption/sealed-values.ts'
import { sealContext } from '../connection/token-keeper.ts'

/** The context that a sealed value is bound to. */
export function sealedContext(
  { table, column }: SealedColumn,
  { row, owner }: Pick<SealedValue, 'row' | 'owner'>,
): string {
  if (table === 'people' || column === 'totp_secret') return totpContext(row)
  return table === 'oauth_grants' ? grantContext(row) : sealContext(owner, column)
}
