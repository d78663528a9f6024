import { OperatorError } from '../errors/operator-error.ts'
import { GuardedFileError, readGuardedFile } from '../files/read-regular-file.ts'

/** Parameters by which an address of PostgreSQL names files. */
const parameters = ['sslrootcert', 'sslcert', 'sslkey'] as const
/** A bundle of all public authorities has a quarter of this size. */
const maxBytes = 1_048_576

/** A file that an address of PostgreSQL names cannot be read; the message has the parameter, the path and the reason. */
export class ConnectionFileError extends OperatorError {
  override readonly name = 'ConnectionFileError'
}

/**
 * Checks the files that an address names before the driver reads them. The driver reads them unchecked on the thread
 * that serves charges, so a pipe would block the process.
 * @throws ConnectionFileError.
 */
export function checkConnectionFiles(url: string): void {
  const given = URL.parse(url)?.searchParams
  for (const parameter of parameters) {
    const path = given?.get(parameter)
    if (!path) continue
    try {
      readGuardedFile(path, { maxBytes })
    } catch (error) {
      if (!(error instanceof GuardedFileError)) throw error
      throw new ConnectionFileError(
        `${parameter} of the database's address: the file ${path} ${error.message}`,
        {
          cause: error,
        },
      )
    }
  }
}
