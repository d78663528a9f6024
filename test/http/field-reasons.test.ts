import { expect, test } from 'vitest'
import { z } from 'zod'
import { fieldMessage } from '../../src/errors/field-reasons.ts'
import { ErpAmount } from '../../src/routes/field-schemas.ts'
import { publicServer } from './sample-app.ts'

/** The pages show the reason of a refused field in their language, by its code. Programs get the English text. */
const app = publicServer()
app.post(
  '/form',
  {
    schema: {
      body: z.strictObject({
        name: z.string().min(3).max(5),
        empty: z.string().min(1).optional(),
        amount: ErpAmount.optional(),
        kind: z.enum(['a', 'b']).optional(),
        count: z.int().min(1).max(9).optional(),
        share: z.number().gt(0).lt(1).optional(),
        step: z.number().multipleOf(5).optional(),
        day: z.iso.date().optional(),
        at: z.iso.datetime().optional(),
        yes: z.boolean().optional(),
        list: z.array(z.string()).min(1).max(2).optional(),
        id: z.uuid().optional(),
        form: z.string().regex(/^x$/).optional(),
        either: z.union([z.string(), z.number()]).optional(),
        own: z
          .string()
          .refine(() => false, fieldMessage({ code: 'STORE_UNKNOWN', data: { store: '{x}' } }))
          .optional(),
      }),
    },
  },
  async () => ({}),
)

async function refused(body: object, language?: string) {
  const headers = language === undefined ? {} : { 'accept-language': language }
  const answer = await app.inject({ method: 'POST', url: '/form', payload: body, headers })
  expect(answer.statusCode).toBe(422)
  return answer.json().details
}

test.each([
  [{}, 'FIELD_MISSING', 'falta'],
  [{ name: 7 }, 'VALUE_WRONG', 'tiene que ser un texto'],
  [{ name: 'ab' }, 'VALUE_WRONG', 'tiene que tener al menos 3 caracteres'],
  [{ name: 'abcdef' }, 'VALUE_WRONG', 'puede tener hasta 5 caracteres'],
  [{ empty: '' }, 'VALUE_WRONG', 'está vacío'],
  [{ amount: '1.5' }, 'VALUE_WRONG', 'tiene que ser un importe con coma'],
  [{ amount: '0,00' }, 'VALUE_WRONG', 'tiene que ser más que cero'],
  [{ kind: 'c' }, 'VALUE_WRONG', 'tiene que ser uno de estos: a, b'],
  [{ count: 0 }, 'VALUE_WRONG', 'tiene que ser 1 o más'],
  [{ count: 10 }, 'VALUE_WRONG', 'puede ser hasta 9'],
  [{ count: 1.5 }, 'VALUE_WRONG', 'tiene que ser un número entero'],
  [{ share: 0 }, 'VALUE_WRONG', 'tiene que ser más que 0'],
  [{ share: 1 }, 'VALUE_WRONG', 'tiene que ser menos que 1'],
  [{ step: 7 }, 'VALUE_WRONG', 'tiene que ser un múltiplo de 5'],
  [{ day: '31/12/2026' }, 'VALUE_WRONG', 'tiene que ser un día, como 2026-12-31'],
  [{ at: 'today' }, 'VALUE_WRONG', 'tiene que ser un momento'],
  [{ yes: 'si' }, 'VALUE_WRONG', 'tiene que ser true o false'],
  [{ list: {} }, 'VALUE_WRONG', 'tiene que ser una lista'],
  [{ list: [] }, 'VALUE_WRONG', 'tiene que tener al menos 1'],
  [{ list: ['a', 'b', 'c'] }, 'VALUE_WRONG', 'puede tener hasta 2'],
  [{ id: '7' }, 'VALUE_WRONG', 'tiene que ser un UUID'],
  [{ form: 'y' }, 'VALUE_WRONG', 'no tiene la forma correcta'],
  [{ either: true }, 'VALUE_WRONG', 'no se permite'],
  [{ own: 'a' }, 'VALUE_WRONG', 'no existe la sucursal {x}'],
  [{ nme: 'a' }, 'FIELD_UNKNOWN', 'no es un campo conocido'],
])('%j is refused for %s, in Spanish where a page asks for it', async (body, code, sentence) => {
  const given = 'name' in body || code === 'FIELD_MISSING' ? body : { name: 'abc', ...body }
  const [plain] = await refused(given)
  expect(Object.keys(plain)).toEqual(['path', 'message'])
  // Node's fetch sends this of its own accord.
  expect(await refused(given, '*')).toEqual([plain])
  const [{ why, ...same }] = await refused(given, 'es-AR')
  expect(same).toEqual(plain)
  expect(why).toMatchObject({ code, message: expect.stringContaining(sentence) })
  const [{ why: english }] = await refused(given, 'en')
  expect(english.message).toBe(plain.message)
  expect(english.message).not.toBe(why.message)
})
