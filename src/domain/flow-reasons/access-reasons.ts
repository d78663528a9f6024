import type { ReasonTexts } from './reason-texts.ts'

/** Why there is no access token. */
export const accessReasons = {
  TOKEN_FAILED: {
    en: 'no access token: {said}',
    es: 'no hay token de acceso: {said}',
  },
  TOKEN_NOT_IN_ANSWER: { en: 'the answer has none', es: 'la respuesta no trae ninguno' },
  TOKEN_REFUSED: {
    en: 'no access token: {said}; see tokenUrl, clientId, clientSecret and clientAuth',
    es: 'no hay token de acceso: {said}; mirá tokenUrl, clientId, clientSecret y clientAuth',
  },
  TOKEN_SEALED: {
    en: 'no access token: it is sealed with the key {key}, which this process was not given (ENCRYPTION_KEYS)',
    es: 'no hay token de acceso: está cifrado con la clave {key}, que este proceso no tiene (ENCRYPTION_KEYS)',
  },
  TOKEN_RENEWED_ELSEWHERE: {
    en: 'no access token yet: another process renews it, or was cut while it did',
    es: 'todavía no hay token de acceso: otro proceso lo renueva, o se cortó mientras lo hacía',
  },
  ACCESS_LOST_KEY: {
    en: 'no access token: the encryption key of the newest refresh token was lost. Authorize the application again, put the new refresh token into {place} (restart, if it is a variable) and reload the flow files. Until then nothing is sent or read with it, and nothing is lost.',
    es: 'no hay token de acceso: se perdió la clave de cifrado del refresh token más nuevo. Autorizá la aplicación otra vez, poné el nuevo refresh token en {place} (si es una variable, reiniciá) y releé los archivos de flujos. Hasta entonces no se envía ni se lee nada con él, y no se pierde nada.',
  },
  ACCESS_LOST_FIRST: {
    en: 'no access token: the issuer refused the refresh token ({code}); the first one is wrong, too old, or was used elsewhere already. Authorize the application again, put the new refresh token into {place} (restart, if it is a variable) and reload the flow files. Until then nothing is sent or read with it, and nothing is lost.',
    es: 'no hay token de acceso: quien lo emite rechazó el refresh token ({code}); el primero está mal escrito, es demasiado viejo o ya se usó en otra parte. Autorizá la aplicación otra vez, poné el nuevo refresh token en {place} (si es una variable, reiniciá) y releé los archivos de flujos. Hasta entonces no se envía ni se lee nada con él, y no se pierde nada.',
  },
  ACCESS_LOST_LATER: {
    en: 'no access token: the issuer refused the refresh token ({code}); it was revoked, another installation used it, or it came back with a restored backup. Authorize the application again, put the new refresh token into {place} (restart, if it is a variable) and reload the flow files. Until then nothing is sent or read with it, and nothing is lost.',
    es: 'no hay token de acceso: quien lo emite rechazó el refresh token ({code}); se revocó, lo usó otro o volvió con una copia de seguridad. Autorizá la aplicación otra vez, poné el nuevo refresh token en {place} (si es una variable, reiniciá) y releé los archivos de flujos. Hasta entonces no se envía ni se lee nada con él, y no se pierde nada.',
  },
  ACCESS_LOST_CUT: {
    en: 'no access token: the issuer refused the refresh token ({code}). A renewal of {at} ended before its answer was stored, so the new token is lost. Authorize the application again, put the new refresh token into {place} (restart, if it is a variable) and reload the flow files. Until then nothing is sent or read with it, and nothing is lost.',
    es: 'no hay token de acceso: quien lo emite rechazó el refresh token ({code}). La renovación del {at} se cortó antes de guardar su respuesta, y el token que trajo se perdió. Autorizá la aplicación otra vez, poné el nuevo refresh token en {place} (si es una variable, reiniciá) y releé los archivos de flujos. Hasta entonces no se envía ni se lee nada con él, y no se pierde nada.',
  },
} as const satisfies ReasonTexts
