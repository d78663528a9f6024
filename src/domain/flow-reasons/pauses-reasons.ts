import type { ReasonTexts } from './reason-texts.ts'

/** Why a flow is paused, why that is over, and why a destination is sent nothing for a while. */
export const pauseReasons = {
  RUN_LIMIT_REACHED: {
    en: 'The flow reached its limit of runs',
    es: 'Se alcanzó el límite de corridas',
  },
  DEFINITION_MISSING: { en: 'definition missing', es: 'Falta el archivo de este flujo' },
  DEFINITION_BACK: { en: 'the definition is back', es: 'El archivo de este flujo volvió' },
  DEFINITION_CHANGED: {
    en: 'The definition changed, and what waits is not sent yet. Resume: keep what was sent, send what waits. Resync with force: send everything again',
    es: 'La definición cambió, y lo pendiente todavía no sale. Reanudar: queda lo enviado y sale lo pendiente. Reenviar todo, aun en pausa: se envía todo de nuevo',
  },
  DEFINITION_SETTLED: {
    en: 'the definition asks nothing any more',
    es: 'La definición ya no pregunta nada',
  },
  DESTINATION_CHANGED: {
    en: 'Other destinations than before[: {destinations}]. All[ {items}] items would be sent to each, and nothing that was delivered before counts. Resume: send them. Or write the former address again',
    es: 'Hay destinos que son otros que antes[: {destinations}]. Se les enviarían todos los ítems[ ({items})], y nada de lo entregado cuenta. Reanudar: se envían. O escribí otra vez la dirección anterior',
  },
  DESTINATION_SETTLED: {
    en: 'the destinations are those of before, or the flow asked about them again',
    es: 'Los destinos son los de antes, o se preguntó de nuevo por ellos',
  },
  EVERYTHING_FORGOTTEN: {
    en: 'The service forgot what it sent: a resumed flow sends everything again',
    es: 'Se olvidó todo: se envía de nuevo cuando se reanude el flujo',
  },
  START_PAUSED: { en: 'startPaused in the flow file', es: 'startPaused en el archivo del flujo' },
  ALL_START_PAUSED: { en: 'FLOWS_START_PAUSED', es: 'FLOWS_START_PAUSED: todo empieza en pausa' },

  SENDING_STOPPED: {
    en: 'sending was stopped by {by}[: {said}]',
    es: 'el envío lo detuvo {by}[: {said}]',
  },
  ATTEMPTS_FAILED: {
    en: '{failed} of the last {among} attempts failed, the last one with: {last}',
    es: 'fallaron {failed} de los últimos {among} intentos, el último con: {last}',
  },
  PROBE_FAILED: {
    en: 'the attempt that looked whether it is back failed with: {last}',
    es: 'el intento que miró si ya volvía falló con: {last}',
  },
} as const satisfies ReasonTexts
