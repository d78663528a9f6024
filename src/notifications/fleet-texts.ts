import { actionOf, causes } from '../fleet/causes.ts'
import { messageOf } from '../fleet/messages.ts'
import type { Particulars } from '../fleet/states.ts'
import type { NotificationTexts } from './channel.ts'
import { chargebackTexts } from './chargeback-message.ts'
import type { AlertText, Locale } from './failure-texts.ts'
import type { AlertMessage, Concerned, FleetMessage } from './fleet-message.ts'
import { oneLine } from './flow-message.ts'
import { orphanTexts } from './unclaimed-message.ts'

type Words = {
  test: [string, string]
  box(client: string, box: string): string
  recovered: string
  was(text: string): string
  since(time: string): string
  more(count: number): string
  dependents(count: number): string
  look: string
  database: [string, string]
  databaseRecovered: string
}

const languages: Record<Locale, Words> = {
  es: {
    test: [
      'Prueba de alertas de los cobros',
      'Este canal recibe las alertas de cajas, conexiones, Mercado Pago y flujos. No hay nada que hacer.',
    ],
    box: (client, box) => `${client}, caja ${box}`,
    recovered: 'volvió a la normalidad',
    was: (text) => `Fue: ${text}`,
    since: (time) => `Desde: ${time}`,
    more: (count) => `y ${count} más`,
    dependents: (count) => `Por lo mismo, además: ${count} (cajas o flujos)`,
    look: 'Vea el estado de todo en el panel (/dashboard) o con la API:',
    database: [
      'La base de datos no guarda nada: no se puede cobrar',
      'Revise que la base responda, que no sea una réplica y que tenga espacio en disco.',
    ],
    databaseRecovered: 'La base de datos guarda otra vez: se puede cobrar',
  },
  en: {
    test: [
      'Alert test of the charges',
      'This channel receives the alerts of boxes, connections, the provider and flows. Nothing needs to be done.',
    ],
    box: (client, box) => `${client}, box ${box}`,
    recovered: 'is well again',
    was: (text) => `It was: ${text}`,
    since: (time) => `Since: ${time}`,
    more: (count) => `and ${count} more`,
    dependents: (count) => `For the same reason, besides: ${count} (boxes or flows)`,
    look: 'See how everything fares on the dashboard (/dashboard) or with the API:',
    database: [
      'The database keeps nothing: no charge can be made',
      'Check that it answers, is no standby, and has room on its disk.',
    ],
    databaseRecovered: 'The database keeps again: charges can be made',
  },
}

const types = {
  test: 'fleet.test',
  trouble: 'fleet.trouble',
  recovered: 'fleet.recovered',
  database: 'service.database_down',
  database_recovered: 'service.database_recovered',
} as const satisfies Record<FleetMessage['kind'], string>

/** A message, as channels send it. */
export function textsOf(message: AlertMessage): NotificationTexts {
  if ('orphans' in message) return orphanTexts(message)
  if ('chargebacks' in message) return chargebackTexts(message)
  const { id, at, kind } = message
  return {
    id,
    at,
    text: (locale) => textOf(message, locale),
    event: { type: types[kind], data: dataOf(message) },
  }
}

function dataOf(message: FleetMessage): object {
  if (message.kind === 'test') return {}
  if (!('cause' in message)) return { since: message.since }
  const { cause, subjects, more, dependents, at } = message
  return {
    cause,
    action: actionOf(isKnown(cause) ? cause : null),
    subjects: subjects.map((one) => ({
      kind: one.kind,
      ...(one.kind === 'box' && { client: one.scope, caja_id: one.name }),
      ...(one.kind === 'connection' && { client: one.scope }),
      ...(one.kind === 'provider' && { operation: one.name }),
      ...(one.kind === 'flow' && { flow: one.name }),
      ...(one.kind === 'destination' && { flow: one.scope, destination: one.name }),
      state: message.kind === 'recovered' ? 'ok' : one.state,
      since: one.since,
      message: sentence(message, one, 'en', new Date(at)),
    })),
    more,
    dependents,
  }
}

function textOf(message: FleetMessage, locale: Locale): AlertText {
  const words = languages[locale]
  const plain = { examples: [], advice: [], command: null }
  switch (message.kind) {
    case 'test':
      return { title: words.test[0], facts: [words.test[1]], ...plain }
    case 'database': {
      const [title, help] = words.database
      return { title, facts: [words.since(clockTime(message.since)), help], ...plain }
    }
    case 'database_recovered':
      return {
        title: words.databaseRecovered,
        facts: [words.since(clockTime(message.since))],
        ...plain,
      }
    case 'trouble':
    case 'recovered': {
      const { subjects, more, dependents } = message
      const isOver = message.kind === 'recovered'
      const about = new Date(message.at)
      const [first, second] = subjects
      const others = subjects.length - 2 + more
      const names = [
        [first, second].flatMap((one) => (one ? [nameOf(one, words)] : [])).join('; '),
        ...(others > 0 ? [words.more(others)] : []),
      ].join(' ')
      const short = clause(message, locale)
      return {
        title: oneLine(`${names}: ${isOver ? words.recovered : short}`),
        facts: [
          ...subjects.map((one) => {
            const text = sentence(message, one, locale, about)
            const time = one.since === null ? '' : ` ${words.since(clockTime(one.since))}.`
            return oneLine(`${nameOf(one, words)}: ${isOver ? words.was(text) : text}${time}`)
          }),
          ...(more > 0 ? [words.more(more)] : []),
          ...(dependents > 0 ? [words.dependents(dependents)] : []),
        ],
        examples: [],
        advice: isOver ? [] : [words.look],
        command: isOver ? null : 'GET /health/fleet?only=problems',
      }
    }
  }
}

type About = Extract<FleetMessage, { kind: 'trouble' | 'recovered' }>

/** The cause in few words, with what is the same of all. */
function clause({ cause, subjects, at }: About, locale: Locale): string {
  const [first, ...rest] = subjects
  const common = Object.fromEntries(
    Object.entries(first?.about ?? {}).filter(([name, value]) =>
      rest.every((one) => one.about[name as keyof Particulars] === value),
    ),
  )
  const whole = messageIn({ cause, since: null, about: common }, locale, new Date(at))
  return whole.split(':', 1)[0] as string
}

function sentence({ cause }: About, one: Concerned, locale: Locale, now: Date): string {
  return messageIn({ cause, since: null, about: one.about }, locale, now)
}

function messageIn(
  health: Pick<About, 'cause'> & { since: Date | null; about: Particulars },
  locale: Locale,
  now: Date,
): string {
  return isKnown(health.cause) ? (messageOf(health, locale, now) ?? '') : health.cause
}

/** Another process, of a newer version, may have written one that is not. */
function isKnown(cause: string): cause is keyof typeof causes {
  return Object.hasOwn(causes, cause)
}

function nameOf({ kind, scope, name }: Concerned, words: Words): string {
  switch (kind) {
    case 'box':
      return words.box(scope, name)
    case 'connection':
      return scope
    case 'provider':
      return `Mercado Pago, ${name}`
    case 'flow':
      return name
    case 'destination':
      return `${scope} → ${name}`
  }
}

/** `2026-11-21 14:30:05 UTC`. */
function clockTime(iso: string): string {
  return `${iso.slice(0, 19).replace('T', ' ')} UTC`
}
