/** When a process is killed: before a step, while it awaits the answer, or right after it. */
export const moments = ['before', 'during', 'after'] as const
export type Moment = (typeof moments)[number]

/** The statements of a poll and of a delivery, by their text. Each is a step at which a process may be killed. */
const statements = [
  ['hashes are compared', /^select "pk", coalesce\(seen_as, hash\) as "hash" from "flow_items"/],
  ['hashes are written', /^insert into "flow_items"/],
  ['hashes are removed', /^delete from "flow_items"/],
  ['deliveries are written', /^with found as materialized .*insert into deliveries/s],
  ['the poll is written', /^with "recorded" as \(insert into "flow_polls"/],
  ['deliveries are claimed', /^with approval as materialized .*from deliveries/s],
  [
    'delivered changes are recorded',
    /^with .*locked as materialized .*update deliveries set\s+state = 'done'.*counted as/s,
  ],
  [
    'other outcomes are recorded',
    /^with\s+locked as materialized .*update deliveries set\s+state = 'done'/s,
  ],
  ['failed attempts are recorded', /^with given as materialized .*update deliveries as row set/s],
  ['leases are checked', /from "leases" .* for (?:key )?share$/],
  // Before the next one, which begins in the same way.
  ['deletes wait for an answer', /question is not distinct from/],
  ['a comparison begins', /^update flow_state set question = \$1::jsonb\s+where/],
  ['a comparison ends', /jsonb_strip_nulls/],
  ['an answer is recorded', /question = question \|\| /],
] as const

/** Steps that a process reaches only after an action of an operator or a shop. */
const rare: ReadonlySet<string> = new Set([
  'a comparison begins',
  'a comparison ends',
  'deletes wait for an answer',
  'an answer is recorded',
])

/** An embedded database has one process, which does not check its leases. */
const stepsOfSeveralProcesses: ReadonlySet<string> = new Set(['leases are checked'])

const commits = [
  'changes are committed',
  'the poll is committed',
  'outcomes are committed',
] as const

/** Steps at the source and the target, which kill the process themselves. */
export const outsideSteps = [
  'the source receives a request',
  'half of the source is sent',
  'the target receives a request',
  'the target has applied the request',
  'the target has answered',
] as const

export type StatementStep = (typeof statements)[number][0] | (typeof commits)[number]
export type OutsideStep = (typeof outsideSteps)[number]

const statementSteps: readonly StatementStep[] = [...statements.map(([name]) => name), ...commits]

/** The step of a statement, if it is one. `before` are the earlier steps of its transaction. */
export function stepOf(
  text: string,
  before: ReadonlySet<StatementStep>,
): StatementStep | undefined {
  const plain = text.trim()
  if (/^commit$/i.test(plain)) {
    if (before.has('other outcomes are recorded')) return 'outcomes are committed'
    if (before.has('deliveries are written')) return 'changes are committed'
    return before.has('the poll is written') ? 'the poll is committed' : undefined
  }
  return statements.find(([, pattern]) => pattern.test(plain))?.[0]
}

/** Where a process is killed; without a moment the source or the target kills it. */
export type KillPoint =
  | { step: StatementStep; moment: Moment }
  | { step: OutsideStep; moment?: never }

export function killPointsOf(isEmbedded: boolean): readonly KillPoint[] {
  return [
    ...stepsOf(isEmbedded).flatMap((step) => moments.map((moment) => ({ step, moment }))),
    ...outsideSteps.map((step) => ({ step })),
  ]
}

export const nameOf = ({ step, moment }: KillPoint): string =>
  moment === undefined ? step : `${moment}: ${step}`

/** The steps that processes can reach. */
export function stepsOf(isEmbedded: boolean): readonly StatementStep[] {
  return statementSteps.filter((step) => !isEmbedded || !stepsOfSeveralProcesses.has(step))
}

export const isRare = ({ step }: Pick<KillPoint, 'step'>): boolean => rare.has(step)
