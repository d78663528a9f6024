/** Why a flow is paused, why that is over, and why a destination is sent nothing for a while. */
export const pauses = {
  RUN_LIMIT_REACHED: 'Se alcanzó el límite de corridas',
  DEFINITION_MISSING: 'Falta el archivo de este flujo',
  DEFINITION_BACK: 'El archivo de este flujo volvió',
  DEFINITION_CHANGED:
    'La definición cambió. Por eso esperan {new} entregas nuevas y {changed} cambiadas[, {failing} no se pueden mapear][, y faltan {missing} ítems]: respondé si se envían o si queda lo enviado',
  START_PAUSED: 'startPaused en el archivo del flujo',
  ALL_START_PAUSED: 'FLOWS_START_PAUSED: todo empieza en pausa',

  SENDING_STOPPED: 'el envío lo detuvo {by}[: {said}]',
  ATTEMPTS_FAILED: 'fallaron {failed} de los últimos {among} intentos, el último con: {last}',
  PROBE_FAILED: 'el intento que miró si ya volvía falló con: {last}',
} as const
