import { parseExactJson } from '../../domain/json.ts'
import { maxRecordCharacters } from './limits.ts'

/** As parseExactJson, for a value of a database. One that no item can hold stays text, and is refused as such unparsed. */
export function parseJsonColumn(text: string): unknown {
  return text.length > maxRecordCharacters ? text : parseExactJson(text)
}
