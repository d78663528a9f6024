import { causeOf, type LossWords, ofSource } from '../sync/oauth/lost-grant.ts'
import { type AlertMessage, type Condition, oneLine, retryCall } from './flow-message.ts'

export type Locale = 'es' | 'en'

/** A message in words. Every text is one line; nothing of it is escaped for any markup. */
export type AlertText = {
  title: string
  facts: string[]
  examples: { pk: string; error: string }[]
  /** What to do, and the call that does it. */
  advice: string[]
  command: string | null
}

type Kind<K extends AlertMessage['kind']> = Extract<AlertMessage, { kind: K }>

type Words = {
  test(flow: string): [string, string]
  failed(flow: string, destination: string, count: number): string
  reminder(flow: string, destination: string, count: number): string
  recovered(flow: string, destination: string): string
  since(time: string): string
  counts(failed: number, open: number): string
  nothingLeft: string
  recoveredFact(since: string): string
  retry: string
  degraded(flow: string): string
  restored(flow: string): string
  condition(condition: Condition, limit: string, value: string | null): string
  conditionEnd: Record<Condition, string>
  look: string
  /** Absent where the words are those of the message. */
  losses?: LossWords
  source: string
  unauthorized(flow: string, place: string): string
  unauthorizedFact: { source: string; destination: string }
  authorize(place: string): string
  authorized(flow: string, place: string): string
  authorizedFact: { source: string; destination: string }
}

const es: Words = {
  test: (flow) => [
    `Prueba de alertas del flujo ${flow}`,
    'Este canal recibe las alertas del flujo. No hay nada que hacer.',
  ],
  failed: (flow, destination, count) =>
    `${flow}: ${count === 1 ? '1 entrega falló' : `${count} entregas fallaron`} en ${destination}`,
  reminder: (flow, destination, count) =>
    `${flow}: ${count === 1 ? 'sigue 1 entrega fallida' : `siguen ${count} entregas fallidas`} en ${destination}`,
  recovered: (flow, destination) => `${flow}: ${destination} se recuperó`,
  since: (time) => `Desde: ${time}`,
  counts: (failed, open) => `Fallas nuevas: ${failed}; sin entregar ahora: ${open}`,
  nothingLeft: 'Todas se entregaron después: no queda ninguna fallida.',
  recoveredFact: (since) => `No quedan entregas fallidas. La primera falla fue el ${since}.`,
  retry:
    'Corrija la causa y vuelva a enviar con «Volver a enviar todo lo fallido» del panel (/admin) o con la API de control:',
  degraded: (flow) => `${flow}: el flujo funciona mal`,
  restored: (flow) => `${flow}: el flujo volvió a la normalidad`,
  condition: (condition, limit, value) =>
    ({
      noSuccessfulPollFor:
        value === null
          ? `Ninguna lectura del origen terminó bien todavía (límite: ${limit}).`
          : `La última lectura correcta del origen fue hace ${value} (límite: ${limit}).`,
      errorPercent: `Falló el ${value} de las entregas de los últimos 15 min (límite: ${limit}).`,
      failedJobs: `Hay ${value} entregas fallidas (límite: ${limit}).`,
      pollLongerThan: `Una lectura del origen dura ${value} (límite: ${limit}).`,
    })[condition],
  conditionEnd: {
    noSuccessfulPollFor: 'El origen se lee otra vez.',
    errorPercent: 'La proporción de entregas fallidas está otra vez bajo el límite.',
    failedJobs: 'La cantidad de entregas fallidas está otra vez bajo el límite.',
    pollLongerThan: 'Las lecturas del origen duran otra vez menos que el límite.',
  },
  look: 'Vea el flujo y sus errores en el panel (/admin) o con la API de control:',
  losses: {
    keyLost: 'se perdió la clave de cifrado del refresh token más nuevo',
    refused: (code) => `quien lo emite rechazó el refresh token (${code})`,
    cut: (time) =>
      `una renovación del ${clockTime(time)} se cortó antes de guardar su respuesta, y el token que trajo se perdió`,
    first: 'el primero está mal escrito, es demasiado viejo o ya se usó en otra parte',
    later: 'se revocó, lo usó otro o volvió con una copia de seguridad',
  },
  source: 'el origen',
  unauthorized: (flow, place) => `${flow}: se perdió la autorización de ${place}`,
  unauthorizedFact: {
    source: 'No se lee nada del origen; lo que cambie allí se verá después.',
    destination: 'No se envía nada a ese destino; lo que se le debe espera.',
  },
  authorize: (place) =>
    `Autorice la aplicación otra vez y ponga el nuevo refresh token en ${place} (si es una variable, reinicie); después haga releer los flujos con la API de control:`,
  authorized: (flow, place) => `${flow}: ${place} tiene autorización otra vez`,
  authorizedFact: {
    source: 'El origen se lee otra vez.',
    destination: 'Lo que esperaba se envía.',
  },
}

const en: Words = {
  test: (flow) => [
    `Alert test of flow ${flow}`,
    'This channel receives the alerts of the flow. Nothing needs to be done.',
  ],
  failed: (flow, destination, count) =>
    `${flow}: ${count === 1 ? '1 delivery' : `${count} deliveries`} to ${destination} failed`,
  reminder: (flow, destination, count) =>
    `${flow}: ${count === 1 ? '1 delivery' : `${count} deliveries`} to ${destination} still failed`,
  recovered: (flow, destination) => `${flow}: ${destination} has recovered`,
  since: (time) => `Since: ${time}`,
  counts: (failed, open) => `New failures: ${failed}; not delivered now: ${open}`,
  nothingLeft: 'All of them were delivered afterwards: none is left failed.',
  recoveredFact: (since) => `No failed deliveries are left. The first failure was at ${since}.`,
  retry:
    'Mend the cause, then send again with “Send all that failed again” of the dashboard (/admin) or with the control API:',
  degraded: (flow) => `${flow}: the flow is not doing well`,
  restored: (flow) => `${flow}: the flow is back to normal`,
  condition: (condition, limit, value) =>
    ({
      noSuccessfulPollFor:
        value === null
          ? `No poll of the source has succeeded yet (limit: ${limit}).`
          : `The last successful poll of the source was ${value} ago (limit: ${limit}).`,
      errorPercent: `${value} of the deliveries of the last 15 min failed (limit: ${limit}).`,
      failedJobs: `There are ${value} failed deliveries (limit: ${limit}).`,
      pollLongerThan: `A poll of the source takes ${value} (limit: ${limit}).`,
    })[condition],
  conditionEnd: {
    noSuccessfulPollFor: 'The source is being read again.',
    errorPercent: 'The share of failed deliveries is below the limit again.',
    failedJobs: 'The number of failed deliveries is below the limit again.',
    pollLongerThan: 'Polls of the source take less than the limit again.',
  },
  look: 'See the flow and its errors on the dashboard (/admin) or with the control API:',
  source: 'the source',
  unauthorized: (flow, place) => `${flow}: the authorization of ${place} is lost`,
  unauthorizedFact: {
    source: 'Nothing is read from the source; what changes there will be seen later.',
    destination: 'Nothing is sent to that destination; what it is owed waits.',
  },
  authorize: (place) =>
    `Authorize the application again and put the new refresh token into ${place} (restart, if it is a variable); then have the flows read again with the control API:`,
  authorized: (flow, place) => `${flow}: ${place} is authorized again`,
  authorizedFact: { source: 'The source is read again.', destination: 'What waited is sent.' },
}

const languages: Record<Locale, Words> = { es, en }

export function textOf(message: AlertMessage, locale: Locale): AlertText {
  const words = languages[locale]
  const { flow } = message
  const plain = { examples: [], advice: [], command: null }
  switch (message.kind) {
    case 'test': {
      const [title, fact] = words.test(flow)
      return { title, facts: [fact], ...plain }
    }
    case 'failed':
    case 'reminder': {
      const { destination, open } = message
      const isNew = message.kind === 'failed'
      const call = retryCall(flow, destination)
      return {
        title: isNew
          ? words.failed(flow, destination, message.failed)
          : words.reminder(flow, destination, open),
        facts: [
          words.since(clockTime(message.since)),
          ...(isNew ? [words.counts(message.failed, open)] : []),
          ...(open === 0 ? [words.nothingLeft] : []),
        ],
        examples: message.examples.map(({ pk, error }) => ({
          pk: oneLine(pk),
          error: oneLine(error),
        })),
        advice: open === 0 ? [] : [words.retry],
        command:
          open === 0 ? null : `${call.method} ${call.path} ${JSON.stringify({ ...call.body })}`,
      }
    }
    case 'recovered':
      return {
        title: words.recovered(flow, message.destination),
        facts: [words.recoveredFact(clockTime(message.since))],
        ...plain,
      }
    case 'degraded': {
      const { condition, limit, value } = message
      return {
        title: words.degraded(flow),
        facts: [
          words.condition(
            condition,
            measure(condition, limit),
            value === null ? null : measure(condition, value),
          ),
        ],
        examples: [],
        advice: [words.look],
        command: `GET /errors?flow=${flow}`,
      }
    }
    case 'unauthorized':
      return {
        title: words.unauthorized(flow, placeIn(words, message)),
        facts: [
          oneLine(lostIn(words, message)),
          words.unauthorizedFact[sideOf(message)],
          words.since(clockTime(message.since)),
        ],
        examples: [],
        advice: [words.authorize(oneLine(message.place))],
        command: 'POST /flows/reload',
      }
    case 'authorized':
      return {
        title: words.authorized(flow, placeIn(words, message)),
        facts: [words.authorizedFact[sideOf(message)], words.since(clockTime(message.since))],
        ...plain,
      }
    case 'restored':
      return {
        title: words.restored(flow),
        facts: [words.conditionEnd[message.condition], words.since(clockTime(message.since))],
        ...plain,
      }
  }
}

/** `2026-11-21 14:30:05 UTC`. */
function clockTime(iso: string): string {
  return `${iso.slice(0, 19).replace('T', ' ')} UTC`
}

function measure(condition: Condition, value: number): string {
  if (condition === 'failedJobs') return String(value)
  if (condition === 'errorPercent') return `${Number(value.toFixed(1))} %`
  return lengthOfTime(value)
}

/** Its two largest units: `45 s`, `15 min`, `1 h 30 min`, `2 d 4 h`. */
function lengthOfTime(ms: number): string {
  const seconds = Math.round(ms / 1_000)
  if (seconds === 0) return `${ms} ms`
  const units = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3_600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'min'],
    [seconds % 60, 's'],
  ] as const
  const first = units.findIndex(([count]) => count > 0)
  return units
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count} ${unit}`)
    .join(' ')
}

function lostIn(words: Words, { reason, loss }: Kind<'unauthorized'>): string {
  return words.losses && loss ? causeOf(loss, words.losses) : reason
}

/** What an access is for. */
function sideOf({ destination }: { destination: string }): 'source' | 'destination' {
  return destination === ofSource ? 'source' : 'destination'
}

function placeIn(words: Words, access: { destination: string }): string {
  return sideOf(access) === 'source' ? words.source : access.destination
}
