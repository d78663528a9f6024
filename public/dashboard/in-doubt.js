import { ConnectionError } from '../shared/api.js'

/** Without an answer it is unknown whether money moved, and the reader must be told. */
export function inDoubt(error) {
  if (error instanceof ConnectionError) error.outcome = 'unknown'
  return error
}
