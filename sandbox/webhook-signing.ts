import { createHmac } from 'node:crypto'

/**
 * The signed text: fixed order, every part ends with a semicolon, absent parts are left out (provider facts 6.4). The
 * body is not part of it.
 */
export function signatureManifest(dataId: string | null, requestId: string | null, ts: string) {
  const id = dataId === null ? '' : `id:${dataId};`
  const request = requestId === null ? '' : `request-id:${requestId};`
  return `${id}${request}ts:${ts};`
}

/** HMAC-SHA256 of the manifest in lower-case hexadecimal: the `v1` of `x-signature`. */
export function signManifest(secret: string, manifest: string): string {
  return createHmac('sha256', secret).update(manifest).digest('hex')
}
