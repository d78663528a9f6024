import type { StoredQuestion } from '../../db/column-types.ts'
import type { Db } from '../../db/database.ts'
import { type FlowStateRow, requireFlowState } from '../../repositories/flows/flow-state.ts'
import { findContents } from '../../repositories/flows/item-versions.ts'
import { listMissed } from '../../repositories/flows/missing-items.ts'
import { type Reason, sentenceOf } from '../../texts/reason.ts'
import type { FlowCard, QuestionView } from '../api/control-types.ts'
import type { FlowRuntime } from '../item/flow-runtime.ts'
import { questionState } from '../poll/poll-plan.ts'

const itemsShown = 100

/** The question of a flow, with the first items that are missing at the source. Without an answer to give there are no numbers. */
export async function readQuestion(db: Db, runtime: FlowRuntime): Promise<QuestionView> {
  const { name } = runtime.flow
  const flow = await requireFlowState(db, name)
  const state = questionState(runtime, flow)
  const asked = state === 'asked' || state === 'answered' ? flow.question : undefined
  const { number, askedAt, destinations, missing, ofSource, examples } = asked ?? {}
  const why = asked ? askedReason(asked) : null
  const pks = await listMissed(db, name, undefined, itemsShown)
  const contents = await findContents(db, name, pks)
  return {
    state,
    number: number ?? null,
    askedAt: askedAt === undefined ? null : new Date(askedAt),
    about: asked ? aboutOf(asked) : null,
    reason: why && sentenceOf(why, 'en'),
    why,
    destinations: destinations ?? [],
    missing: missing ?? 0,
    missingItems: pks.map((pk) => ({ pk, name: nameOf(contents.get(pk)) })),
    ofSource: ofSource ?? 0,
    examples: examples ?? [],
  }
}

function aboutOf({ definition }: StoredQuestion): 'definition' | 'deletes' {
  return definition === undefined ? 'deletes' : 'definition'
}

/** In a sentence, with the numbers of all destinations. */
export function askedReason({ held, destinations = [], missing = 0 }: StoredQuestion): Reason {
  if (held) return held.why as Reason
  const sum = (count: (one: (typeof destinations)[number]) => number) =>
    destinations.reduce((total, one) => total + count(one), 0)
  const data = {
    new: sum((one) => one.new),
    changed: sum((one) => one.changed),
    failing: sum((one) => one.notMappable) || undefined,
    missing: missing || undefined,
  }
  return { code: 'DEFINITION_CHANGED', data }
}

/** The question as long as it has no answer. */
export function openQuestion(runtime: FlowRuntime, flow: FlowStateRow): FlowCard['question'] {
  const { question } = flow
  if (questionState(runtime, flow) !== 'asked' || question?.number === undefined) return null
  const why = askedReason(question)
  const { number, askedAt } = question
  const at = askedAt === undefined ? null : new Date(askedAt)
  return { number, about: aboutOf(question), reason: sentenceOf(why, 'en'), why, askedAt: at }
}

/** Fields that may name an item, in order of preference. */
const nameFields = [
  ...['nombre', 'name', 'título', 'titulo', 'title'],
  ...['descripción', 'descripcion', 'description', 'detalle', 'razon_social'],
]
const longestName = 200

/** The name of an item; null if its content is not kept or has no name. */
function nameOf(content: Record<string, unknown> | undefined): string | null {
  const fields = new Map(
    Object.entries(content ?? {}).map(([field, value]) => [field.toLowerCase(), value]),
  )
  const found = nameFields.map((field) => fields.get(field)).find((value) => isText(value))
  return typeof found === 'string' ? found.slice(0, longestName) : null
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value.trim() !== ''
}
