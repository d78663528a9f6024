import type { ReasonTexts } from './reason-texts.ts'

/** Reasons that earlier versions stored and this one only shows. */
export const formerReasons = {
  SOURCE_FAILED: { en: '{said}', es: 'el origen no se pudo leer: {said}' },
  RECORD_REFUSED: { en: '{said}', es: 'un registro no se pudo tomar: {said}' },
  SOURCE_WARNING: { en: '{said}', es: 'aviso del origen: {said}' },
  CONNECTION_FAILED: { en: '{said}', es: 'sin respuesta: {said}' },
  MAPPING_FAILED: { en: '{said}', es: 'la conversión falló: {said}' },
  TEMPLATE_FAILED: { en: '{said}', es: 'el pedido no se pudo armar: {said}' },
  BATCH_UNREADABLE: { en: '{said}', es: 'la respuesta al lote no se entiende: {said}' },
  MAPPING_MISFIT: {
    en: 'the mapping does not fit the destination: {said}',
    es: 'lo que da la conversión no es lo que toma el destino: {said}',
  },
  PAYMENTS_FAILED: { en: '{said}', es: 'el lado de los cobros no lo tomó: {said}' },
} as const satisfies ReasonTexts
