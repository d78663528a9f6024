import type { FastifyRequest } from 'fastify'
import type { Reader } from '../../payments/events/consumers.ts'
import { tenantOfRequest } from '../authentication.ts'

/** Which reader of a consumer asks. */
export function readerOf(request: FastifyRequest, name: string): Reader {
  const { reader } = request.query as { reader?: string | undefined }
  return { client: tenantOfRequest(request), name, reader: reader ?? request.ip }
}
