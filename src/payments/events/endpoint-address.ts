import { type AppError, invalid } from '../../errors/app-error.ts'
import { type AddressPolicy, classOfLiteral, isMetadataName } from '../../outbound/address-class.ts'
import { parseHttpUrl } from '../../outbound/guarded-request.ts'

/**
 * The address of an endpoint, in its normal form. A name is checked again when it is resolved, before each request.
 *
 * @throws VALIDATION_ERROR for one to which every request would be refused
 */
export function endpointAddress(given: string, policy: AddressPolicy): string {
  const url = parse(given)
  const { hostname } = url
  if (isMetadataName(hostname) || classOfLiteral(hostname) === 'never') {
    throw invalid('url', { code: 'ENDPOINT_METADATA' })
  }
  const isPrivate =
    url.protocol === 'http:' ||
    classOfLiteral(hostname) === 'private' ||
    /(^|\.)localhost\.?$/.test(hostname)
  if (isPrivate && !policy.allowPrivateNetwork) throw invalid('url', { code: 'ENDPOINT_PRIVATE' })
  url.hash = ''
  return url.href
}

function parse(given: string): URL {
  try {
    return parseHttpUrl(given)
  } catch (cause) {
    throw notAnAddress(cause)
  }
}

/** `parseHttpUrl` throws for nothing else. */
function notAnAddress(_cause: unknown): AppError {
  return invalid('url', { code: 'ENDPOINT_ADDRESS' })
}
