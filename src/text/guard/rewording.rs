//! What the language lets be said in two ways, and what only looks like it.

use super::super::super::lexicon::LEXICONS;
use super::*;

/// One memory in two wordings.
#[rustfmt::skip]
const REWORDED: &[(&str, &str)] = &[
    ("Maeve is a product manager at Harbor", "Maeve works as a product manager at Harbor"),
    ("Ana was an editor at Faber", "Ana worked as an editor at Faber"),
    ("Tom is allergic to peanuts and carries a pen", "Tom has an allergy to peanuts and carries a pen"),
    ("For each new client sign the terms", "For every new client sign the terms"),
    ("Maeve's sister Aoife lives in Galway with her two kids", "Aoife, Maeve's sister, lives in Galway with her two children"),
    ("Tom's son Alfie has a peanut allergy", "Alfie, Tom's son, has a peanut allergy"),
    ("Tom's son Alfie has a peanut allergy", "Alfie, the son of Tom, has a peanut allergy"),
    ("Tom bought a car", "Tom purchased an automobile"),
    ("Ana's favourite colour is green", "Ana's favorite color is green"),
    ("The user's phone has a cracked screen", "User's telephone has a cracked screen"),
    ("Ana likes old movies because they are slow", "Ana likes old films because they are slow"),
    ("Noor resides in Leeds with two puppies", "Noor lives in Leeds with two pups"),
    ("The repo keeps its config in YAML", "The repository keeps its configuration in YAML"),
    ("Ana currently lives in Rome", "Ana lives in Rome"),
    ("A Ana é enfermeira no Porto", "A Ana trabalha como enfermeira no Porto"),
    ("A Ana é alérgica à penicilina", "A Ana tem alergia à penicilina"),
    ("O Rui tem uma alergia a marisco", "O Rui é alérgico a marisco"),
    ("O Duarte, companheiro da Ana, é professor", "O companheiro da Ana, o Duarte, é professor"),
    ("Bento, filho do Rui, tem asma", "O filho do Rui, Bento, tem asma"),
    ("Não come camarão nem caranguejo, porque faz mal", "Não come camarão e nem caranguejo, pois faz mal"),
    ("O Rui mora no Recife e usa o ônibus", "Rui mora em Recife e usa o autocarro"),
    ("A Célia comprou um celular novo", "Célia adquiriu um telemóvel novo"),
    ("Todos os dias corre com o cachorro", "Todo dia corre com o cão"),
    ("La Ana es enfermera en Madrid", "Ana trabaja como enfermera en Madrid"),
    ("Ana es alérgica al polen", "Ana tiene alergia al polen"),
    ("Lucía, hermana de Ana, vive en Sevilla", "La hermana de Ana, Lucía, reside en Sevilla"),
    ("Ana usa el ordenador por la noche", "Ana utiliza la computadora por la noche"),
    ("Prefiere ver películas por la noche", "Prefiere ver filmes por la noche."),
    ("Toma zumo porque le sienta bien", "Toma jugo, ya que le sienta bien"),
];

/// A word, an ending or a place apart from a rewording, and two memories.
#[rustfmt::skip]
const NEAR_MISSES: &[(&str, &str)] = &[
    ("prefers quiet rooms", "prefers sunny rooms"),
    ("Ana is a manager", "Ana has a manager"),
    ("Ana works as a nurse", "Ana works with a nurse"),
    ("Ana works as a nurse", "Ana works for a nurse"),
    ("Ana works as a nurse", "Ana worked as a nurse"),
    ("Ana is a nurse", "Ana worked as a nurse"),
    ("Ana works as hard as a nurse", "Ana is a nurse"),
    ("Ana works as a nurse in Porto", "Ana is a doctor in Porto"),
    ("Tom has an allergy to peanuts", "Tom had an allergy to peanuts"),
    ("Tom is allergic to peanuts", "Tom has an allergy to walnuts"),
    ("Tom is allergic to peanuts", "Tom has no allergy to peanuts"),
    ("Ana's brother Bruno lives in Porto", "Bruno's brother Ana lives in Porto"),
    ("Ana's brother Bruno lives in Porto", "Ana, Bruno's brother, lives in Porto"),
    ("Ana's brother Bruno lives in Porto", "Bruno, Ana's cousin, lives in Porto"),
    ("Aoife, Maeve's sister, lives in Galway", "Maeve, Aoife's sister, lives in Galway"),
    ("Aoife, Maeve's sister, and Tom live in Galway", "Maeve's sister Aoife and Tom live in Galway"),
    ("Aoife, Maeve's sister, the dog and Tom live here", "Maeve's sister Aoife, dog and Tom live here"),
    ("Tom's son Alfie likes chess", "Tom and his son Alfie like chess"),
    ("Tom's son Alfie's friend likes chess", "Alfie, Tom's son, likes chess"),
    ("Tom told Alfie, Ana's son, to wait", "Tom told Ana's son Alfie to wait"),
    ("Maeve lives with her two kids", "Maeve lives with her two cats"),
    ("Maeve has a kid", "Maeve has children"),
    ("Tom buys rye flour", "Tom sells rye flour"),
    ("Tom buys rye flour", "Tom purchased rye flour"),
    ("Tom began to smoke", "Tom starts to smoke"),
    ("Each client signs the terms", "Some client signs the terms"),
    ("Ana drives a car", "Ana drives a motorbike"),
    ("Ana's mum likes tea", "Ana's dad likes tea"),
    ("Ana uses the Film app", "Ana uses the Movie app"),
    ("Ana likes tea", "Ana likes that tea"),
    ("Noor lived in Leeds", "Noor resides in Leeds"),
    ("Noor resides in Leeds", "Noor lives near Leeds"),
    ("The till bag goes in the safe", "The till bag goes on the safe"),
    ("Alarm set at night", "Alarm on at night"),
    ("The patient goes out at noon", "The patient is sent at noon"),
    ("A Ana trabalha como enfermeira", "A Ana trabalhava como enfermeira"),
    ("A Ana trabalha como louca", "A Ana é louca"),
    ("O Rui trabalha como um cão", "O Rui é um cão"),
    ("A Ana é enfermeira", "A Ana tem enfermeira"),
    ("A Ana é alérgica à penicilina", "A Ana tem alergia à amoxicilina"),
    ("O Rui tem alergia a marisco", "O Rui tinha alergia a marisco"),
    ("O Duarte, companheiro da Ana, é professor", "A Ana, companheira do Duarte, é professora"),
    ("O Duarte, companheiro da Ana, é professor", "O irmão da Ana, o Duarte, é professor"),
    ("O Bento, filho do Rui, e a Alice moram aqui", "O filho do Rui, o Bento, é a Alice moram aqui"),
    ("Mora no Porto", "Mora perto do Porto"),
    ("Vai para o Recife", "Vem do Recife"),
    ("Aberto de segunda a sexta", "Aberto de segunda e sexta"),
    ("Aberto segunda a sexta", "Aberto segunda, sexta"),
    ("O Rui tem um cachorro", "O Rui tem um gato"),
    ("O dono de cachorro velho reclamou", "O dono velho de cachorro reclamou"),
    ("A Célia comprou um celular", "A Célia compra um celular"),
    ("Corre todo dia", "Corre algum dia"),
    ("Ana trabaja como enfermera", "Ana trabaja con enfermera"),
    ("Ana trabaja como enfermera", "Ana trabajaba como enfermera"),
    ("Ana trabaja como loca", "Ana es loca"),
    ("Ana es jefa", "Ana tiene jefa"),
    ("Ana es alérgica al polen", "Ana tiene alergia al polvo"),
    ("Lucía, hermana de Ana, vive en Sevilla", "Ana, hermana de Lucía, vive en Sevilla"),
    ("Lucía, hermana de Ana, vive en Sevilla", "La prima de Ana, Lucía, vive en Sevilla"),
    ("Abierto de lunes a viernes", "Abierto lunes y viernes"),
    ("Vive en Sevilla", "Vivía en Sevilla"),
    ("Toma zumo de naranja", "Toma zumo de limón"),
    ("Viaja en autobús", "Viaja en coche"),
    ("Usa el ordenador de Ana", "Usa el ordenador con Ana"),
    ("Su marido cocina", "Su esposa cocina"),
];

#[test]
fn what_can_be_said_in_two_ways_is_left_to_the_cosine() {
    let both = REWORDED.iter().flat_map(|(a, b)| [(a, b), (b, a)]);
    let wrong: Vec<_> = both
        .map(|(a, b)| (judge(a, b), a, b))
        .filter(|(verdict, ..)| *verdict != Verdict::Alike)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_only_looks_reworded_stays_apart() {
    let both = NEAR_MISSES.iter().flat_map(|(a, b)| [(a, b), (b, a)]);
    let merged: Vec<_> = both
        .filter(|(a, b)| judge(a, b).may_merge(Some(1.0), 0.0))
        .collect();
    assert!(merged.is_empty(), "{merged:#?}");
}

#[test]
fn each_rewording_is_of_one_line_and_none_of_a_line_are_two_things() {
    for lexicon in LEXICONS.iter() {
        let (mut seen, mut wrong) = (Vec::new(), Vec::new());
        for line in lexicon.rewording.lines() {
            for (at, phrase) in line.iter().enumerate() {
                if seen.contains(phrase) {
                    wrong.push(phrase.clone());
                }
                for other in &line[..at] {
                    let (a, b) = (
                        Analysis::with_language(other, Some(lexicon.code)),
                        Analysis::with_language(phrase, Some(lexicon.code)),
                    );
                    let pair = Comparison::of(&a, &b, Context::default());
                    if pair.disagreements().antonym.is_some() || pair.has_contrast() {
                        wrong.push(format!("{other} | {phrase}"));
                    }
                }
            }
            seen.extend(line);
        }
        assert!(wrong.is_empty(), "{lexicon:?}: {wrong:#?}");
        assert!(seen.len() > 150, "{lexicon:?}: {}", seen.len());
    }
}
