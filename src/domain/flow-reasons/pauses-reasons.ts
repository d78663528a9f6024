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
    en: 'The definition changed. Because of it {new} new and {changed} changed deliveries wait[, {failing} cannot be mapped][, and {missing} items are missing]: answer whether to send them or to keep what was sent',
    es: 'La definición cambió. Por eso esperan {new} entregas nuevas y {changed} cambiadas[, {failing} no se pueden mapear][, y faltan {missing} ítems]: respondé si se envían o si queda lo enviado',
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
