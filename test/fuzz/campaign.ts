import fc from 'fast-check'
import { createAnswerCheck } from './answer-check.ts'
import { type RawDocument, readDocument } from './document.ts'
import { callersOf, type FuzzTestbed, knownOf, type ListenerName } from './fuzz-testbed.ts'
import { type FuzzRequest, requestMaker } from './requests.ts'
import { createSender } from './send.ts'

export type Finding = {
  /** What is broken, where. */
  kind: string
  text: string
  /** The smallest request that still shows it. */
  request: FuzzRequest
  answer: string
}

export type Campaign = {
  requests: number
  /** How often each operation answered each status. */
  statuses: Map<string, Map<number, number>>
  disconnected: number
  findings: Finding[]
}

/** Requests use things up: orders are refunded, keys revoked. */
const renewAfter = 400
/** After one of these has worked, most others find nothing any more; but not after each when they come in a row. */
const usesUp = /^(POST \/oauth\/logout|POST \/api-keys\/revoke|DELETE \/stores\/\S+|PATCH .*)$/
const renewAfterUse = 40
/** A run with more findings than that has one cause, and shrinking each takes time. */
const findingsAtMost = 60

/**
 * Sends so many generated requests to a listener and holds every answer against the document that the listener serves.
 * One seed makes the same requests each time. A breach is shrunk to a small request, then the run goes on without it.
 */
export async function runCampaign(
  testbed: FuzzTestbed,
  listener: ListenerName,
  {
    requests,
    seed,
    onProgress,
  }: { requests: number; seed: number; onProgress?: (done: number) => void },
): Promise<Campaign> {
  const url = testbed.urls[listener]
  const served = (await (await fetch(`${url}/openapi.json`)).json()) as RawDocument
  const document = readDocument(served)
  const check = createAnswerCheck(
    document,
    listener === 'payment' ? 'coded' : 'plain',
    testbed.canaries,
  )
  const sender = createSender(testbed, url)
  const generated = requestMaker(document, callersOf[listener], knownOf(listener))
  const campaign: Campaign = { requests: 0, statuses: new Map(), disconnected: 0, findings: [] }
  const known = new Set<string>()
  let last: Finding | undefined
  let sinceRenewal = 0
  let isUsedUp = false

  const examine = async (request: FuzzRequest): Promise<Finding[]> => {
    const operation = document.find(request.method, request.target)?.name ?? 'no route'
    const found = (kind: string, text: string, answer: string): Finding => ({
      kind: kind.startsWith('header ') ? kind : `${operation}: ${kind}`,
      text,
      request,
      answer,
    })
    try {
      const answer = await sender.send(request)
      if (!answer) {
        campaign.disconnected += 1
        return []
      }
      const counts = campaign.statuses.get(operation) ?? new Map<number, number>()
      campaign.statuses.set(
        operation,
        counts.set(answer.status, (counts.get(answer.status) ?? 0) + 1),
      )
      if (usesUp.test(operation) && answer.status === 200) isUsedUp = true
      const shown = `${answer.status} ${JSON.stringify(answer.headers)}\n${answer.body.slice(0, 500)}`
      return check(request.method, testbed.fill(request.target, encodeURIComponent), answer).map(
        ({ kind, text }) => found(kind, text, shown),
      )
    } catch (error) {
      return [found(`no answer (${error instanceof Error ? error.message : error})`, '', '')]
    }
  }

  let round = 0
  while (campaign.requests < requests && known.size < findingsAtMost) {
    let hunted: string | undefined
    const property = fc.asyncProperty(generated, async (request) => {
      if (hunted === undefined) {
        if (sinceRenewal >= (isUsedUp ? renewAfterUse : renewAfter)) {
          await testbed.renew()
          sinceRenewal = 0
          isUsedUp = false
        }
        sinceRenewal += 1
        campaign.requests += 1
        if (campaign.requests % 1000 === 0) onProgress?.(campaign.requests)
      }
      const found = (await examine(request)).find(({ kind }) =>
        hunted === undefined ? !known.has(kind) : kind === hunted,
      )
      if (!found) return
      hunted = found.kind
      last = found
      throw new Error(found.kind)
    })
    const result = await fc.check(property, {
      seed: seed + round,
      numRuns: requests - campaign.requests,
    })
    round += 1
    if (result.failed && last && hunted !== undefined) {
      known.add(hunted)
      campaign.findings.push(last)
    }
  }
  await sender.close()
  return campaign
}

export function describe({ kind, text, request, answer }: Finding): string {
  return `${kind}: ${text}\n  ${JSON.stringify(request)}\n  ${answer.replaceAll('\n', '\n  ')}`
}
