import { parseExactJson } from '../../domain/json.ts'
import { maxRecordCharacters } from './limits.ts'

/**
 * Like parseExactJson, for a JSON value of a database. Text that no item can hold is returned unparsed; a later check refuses
 * it.
 */
export function parseJsonColumn(text: string): unknown {
  return text.length > maxRecordCharacters ? text : parseExactJson(text)
}
