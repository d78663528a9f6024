import type { DeliveryJob } from '../types.ts'

/** A value of the template that cannot stand there; `message` is for the operator. */
export class TemplateError extends Error {}

type Placeholders = Pick<DeliveryJob, 'pk' | 'jobKey'>

/**
 * Fills `{pk}` (percent-encoded) and `{jobKey}` into an address. Throws TemplateError when a key would change the path: a
 * segment of one or two dots is resolved by every client, encoded or not, so `stores/{pk}` would become another address.
 */
export function fillUrl(template: string, job: Placeholders): string {
  const url = fill(template, job)
  const path = url.split(/[?#]/, 1)[0] ?? ''
  if (path.split('/').some((segment) => /^(\.|%2e){1,2}$/i.test(segment))) {
    throw new TemplateError(`the key ${JSON.stringify(job.pk)} cannot stand in an address`)
  }
  return url
}

/** As `fillUrl`, for a header: headers hold ASCII only, so the key is percent-encoded there too. */
export function fillHeader(template: string, job: Placeholders): string {
  return fill(template, job)
}

/** Throws TemplateError when the receiver's host would depend on an item: a key must not choose whom we call. */
export function checkTemplate(template: string): void {
  const origin = (pk: string) => URL.parse(fill(template, { pk, jobKey: pk }))?.origin
  if (origin('a') === undefined || origin('a') !== origin('b')) {
    throw new TemplateError('the host of an address must not depend on the item')
  }
}

function fill(template: string, { pk, jobKey }: Placeholders): string {
  if (!pk.isWellFormed()) throw new TemplateError('the key holds broken Unicode')
  return template.replace(/\{(pk|jobKey)\}/g, (_, name) =>
    encodeURIComponent(name === 'pk' ? pk : jobKey),
  )
}
