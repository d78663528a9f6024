import { AppError } from '../errors/app-error.ts'

/**
 * For the health of either listener.
 *
 * @throws SERVICE_UNAVAILABLE with the reason, when the database is unreachable or accepts no writes.
 */
export async function requireDatabase(database: {
  ping(): Promise<boolean>
  takesWrites(): Promise<boolean>
}): Promise<void> {
  const [answers, takesWrites] = await Promise.all([database.ping(), database.takesWrites()])
  if (!answers) {
    throw new AppError('SERVICE_UNAVAILABLE', { message: 'The database cannot be reached' })
  }
  if (!takesWrites) {
    throw new AppError('SERVICE_UNAVAILABLE', { message: 'The database takes no writes' })
  }
}
